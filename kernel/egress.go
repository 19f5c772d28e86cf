package kernel

// Egress is what became of the connections that a program asked the gateway for, which
// is the only way out of its sandbox. It is capped: what isn't told of one by one is
// counted.
type Egress struct {
	Total       int64        `json:"total"`    // connections in all
	Up          int64        `json:"up_bytes"` // to the outside
	Down        int64        `json:"down_bytes"`
	Connections []Connection `json:"connections"` // the first MaxConnections, in the order of their ends
	Denied      []Denied     `json:"denied"`      // the first MaxDenied kinds, in the order in which they came first
	DeniedMore  int64        `json:"denied_more"` // of other kinds
	// Usage is what the requests to providers of models used, of each model, in the order
	// in which they came first; absent where none was asked.
	Usage []Usage `json:"usage,omitempty"`
}

// Usage is what requests to a provider used of a model, in tokens, as the gateway read it
// from the provider's answers. None is counted twice.
type Usage struct {
	Model      string `json:"model"` // the last one of a list may be OtherModels
	Requests   int64  `json:"requests"`
	Input      int64  `json:"input"` // neither read from the provider's cache nor written to it
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Output     int64  `json:"output"`
	// Reserved and Unknown are how many of the requests are charged what was reserved for
	// them: their answers broke off before they said what was used, or never said it.
	Reserved int64 `json:"reserved"`
	Unknown  int64 `json:"unknown"`
	// Price is what the operator says that the model costs, and Cost what all of this comes
	// to, rounded up, in millionths of the price's currency. Without a price there is neither.
	Price *Price `json:"price,omitempty"`
	Cost  int64  `json:"cost_micro,omitempty"`
}

// Tokens are all that were used.
func (u Usage) Tokens() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// OtherModels stands for the models beyond MaxModels.
const OtherModels = "(others)"

// How much of an [Egress] is told one by one; of connections, for the checks of a run
// together.
const (
	MaxConnections = 200
	MaxDenied      = 32
	MaxModels      = 16
)

// Connection is one connection. Verdict, code and rule are those of executor/gateway.
type Connection struct {
	At      int64  `json:"at"` // when it began, Unix milliseconds
	Mode    string `json:"mode"`
	Host    string `json:"host"`
	Port    int64  `json:"port"`
	Method  string `json:"method"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Rule    string `json:"rule"`
	Detail  string `json:"detail"`
	Address string `json:"address"`
	Up      int64  `json:"up_bytes"`
	Down    int64  `json:"down_bytes"`
	Millis  int64  `json:"duration_ms"`
}

// Denied counts connections that were denied for the same reason.
type Denied struct {
	Host  string `json:"host"`
	Port  int64  `json:"port"`
	Code  string `json:"code"`
	Rule  string `json:"rule"`
	Count int64  `json:"count"`
}
