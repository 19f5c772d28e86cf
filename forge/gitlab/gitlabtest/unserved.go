package gitlabtest

import "net/http"

// unservedURL is where a server is said to be that isn't on the network.
const unservedURL = "http://127.0.0.1:1"

// Handler answers as the server does.
func (s *Server) Handler() http.Handler { return s.HTTP.Config.Handler }
