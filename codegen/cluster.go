package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags say which CRDs to read from a cluster.
type clusterFlags struct {
	names      []string // of CRDs, or of groups
	kubeconfig string   // empty means that of kubectl
	context    string   // empty means the current one
}

// parse adds the names of one -from-cluster.
func (c *clusterFlags) parse(text string) error {
	for _, name := range strings.Split(text, ",") {
		if name = strings.TrimSpace(name); !groupName.MatchString(name) {
			return fmt.Errorf("%q: want names of CRDs, such as widgets.shop.example.com, or of groups", name)
		}
		c.names = append(c.names, name)
	}
	return nil
}

// complete returns an error for flags that do not go together.
func (c *clusterFlags) complete() error {
	if len(c.names) == 0 && (c.kubeconfig != "" || c.context != "") {
		return errors.New("-kubeconfig and -context need -from-cluster, with the names of CRDs or groups")
	}
	return nil
}

// definitions reads the CRDs that the flags name, by their own names or those of their groups.
func (c *clusterFlags) definitions() ([]*definition, error) {
	if len(c.names) == 0 {
		return nil, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("-from-cluster: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("-from-cluster: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("-from-cluster: %w", err)
	}
	all, err := listDefinitions(client, server)
	if err != nil {
		return nil, fmt.Errorf("-from-cluster: %w", err)
	}
	return c.choose(all, server.Host)
}

// choose returns the definitions that the flags name.
func (c *clusterFlags) choose(all []*definition, server string) (chosen []*definition, err error) {
	for _, name := range c.names {
		found := false
		for _, d := range all {
			if d.Metadata.Name != name && d.Spec.Group != name {
				continue
			}
			if found = true; !slices.Contains(chosen, d) {
				chosen = append(chosen, d)
			}
		}
		if !found {
			return nil, fmt.Errorf("-from-cluster %s: %s has neither a CRD nor a group with CRDs of this name", name, server)
		}
	}
	return chosen, nil
}

// The API server needs seconds for a page with large schemas.
const (
	clusterTimeout = 5 * time.Minute
	clusterPage    = "100"
)

// listDefinitions returns the CRDs of a cluster.
func listDefinitions(client *http.Client, server *url.URL) (all []*definition, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	address := server.JoinPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
	for next := ""; ; {
		query := url.Values{"limit": {clusterPage}}
		if next != "" {
			query.Set("continue", next)
		}
		address.RawQuery = query.Encode()
		text, err := get(ctx, client, address.String())
		if err != nil {
			return nil, err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		for _, item := range page.Items {
			d, err := decodeDefinition(item, token.Position{Filename: server.Host})
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}

// get reads a response of the API server.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		json.Unmarshal(text, &status) // the response of a proxy is not a Status
		return nil, fmt.Errorf("%s: %s: %s", url, response.Status, status.Message)
	}
	return text, nil
}
