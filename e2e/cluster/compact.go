package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Compact makes etcd drop every version before rv, as the API server does every five minutes. The API server does not
// notice: it continues to serve the contents of its watch caches until it is restarted.
func (c *Cluster) Compact(ctx context.Context, rv uint64) error {
	body := fmt.Sprintf(`{"revision": "%d", "physical": true}`, rv)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+"/v3/kv/compaction", strings.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("cluster: compact etcd: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, logTail))
		return fmt.Errorf("cluster: compact etcd at %d: %s: %s", rv, resp.Status, answer)
	}
	return nil
}
