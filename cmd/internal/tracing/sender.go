package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sender posts spans to a collector. It implements otlptrace.Client. The
// library's own would read its address and headers from the environment, where
// neither the configuration nor the redactor knows of them, retry by itself and
// speak through a global.
type sender struct {
	url     string
	headers map[string]string
	client  *http.Client
}

func newSender(o Options) (*sender, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, errors.New("the address of the collector is no URL")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the collector sends elsewhere, which is not followed")
		},
	}
	if o.Client != nil {
		client.Transport = o.Client.Transport
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		client.Transport = t.Clone()
	}
	return &sender{url: u.String(), headers: o.Headers, client: client}, nil
}

// Start implements otlptrace.Client.
func (*sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client: one request, of the caller's
// patience. A TracesData has the bytes of an ExportTraceServiceRequest.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	const most = 64 << 10 // of an answer; it is read so that the connection can be used again
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, most))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("the collector answered %d", res.StatusCode)
	}
	return nil
}
