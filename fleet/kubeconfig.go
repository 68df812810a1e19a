package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// maxKubeconfig is the largest size of a kubeconfig, in bytes. A Secret cannot have more.
const maxKubeconfig = 1 << 20

// trust says what a kubeconfig may make this process do.
type trust struct {
	exec  bool // run a program, by an exec plugin or an auth provider
	files bool // read a file, and send it to the server
	dir   string
}

// kubeconfig returns the configuration of a client for the current context of a kubeconfig. Errors quote nothing of it:
// those of parsers may quote a credential.
func (t trust) kubeconfig(content []byte) (*rest.Config, error) {
	if len(content) > maxKubeconfig {
		return nil, fmt.Errorf("it has %d bytes: a kubeconfig has at most %d", len(content), maxKubeconfig)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is not a valid kubeconfig")
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return nil, errors.New("its current-context is not among its contexts")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil {
		return nil, errors.New("the cluster of its current context is not among its clusters")
	}
	if user == nil {
		if user = api.NewAuthInfo(); current.AuthInfo != "" {
			return nil, errors.New("the user of its current context is not among its users")
		}
	}
	if err := t.permit(cluster, user); err != nil {
		return nil, err
	}
	// Only this context: others may refer to files that do not exist here.
	alone := api.NewConfig()
	alone.CurrentContext, alone.Contexts["current"] = "current", &api.Context{Cluster: "cluster", AuthInfo: "user"}
	alone.Clusters["cluster"], alone.AuthInfos["user"] = cluster, user
	if t.dir != "" {
		cluster.LocationOfOrigin, user.LocationOfOrigin = t.dir+"/kubeconfig", t.dir+"/kubeconfig"
		if err := clientcmd.ResolveLocalPaths(alone); err != nil {
			return nil, errors.New("a path of a file in it cannot be resolved")
		}
	}
	result, err := clientcmd.NewDefaultClientConfig(*alone, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("its cluster or user is invalid: a field is missing, contradicts another one, or names a " +
			"file that cannot be read")
	}
	return result, nil
}

// permit returns an error if the kubeconfig asks for something that is not allowed, or contains a credential where logs
// would show it.
func (t trust) permit(cluster *api.Cluster, user *api.AuthInfo) error {
	switch {
	case user.Exec != nil && !t.exec:
		return errors.New("its user has an exec plugin, which would run a program in this process: set AllowExec to allow it")
	case user.AuthProvider != nil && !t.exec:
		return errors.New("its user has an auth-provider, which may run a program in this process: set AllowExec to allow it")
	case !t.files && (user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" ||
		cluster.CertificateAuthority != ""):
		return errors.New("it names a file, which this process would read and use for the server of the kubeconfig: " +
			"put the content into it, or set AllowFiles to allow it")
	}
	return checkServer(cluster.Server)
}

// checkServer returns an error if server is not the address of an API server.
func checkServer(server string) error {
	u, _, err := rest.DefaultServerURL(server, "", schema.GroupVersion{}, false) // as the client does, without a scheme too
	switch {
	case err != nil || server == "":
		return errors.New("the address of the server is invalid")
	case u.User != nil:
		return errors.New("the address of the server contains a user: use a token or a certificate")
	}
	return nil
}

// argoConfig is the value of config in a cluster's Secret of Argo CD.
type argoConfig struct {
	Username           string `json:"username"`
	Password           string `json:"password"`
	BearerToken        string `json:"bearerToken"`
	DisableCompression bool   `json:"disableCompression"`
	ProxyURL           string `json:"proxyUrl"`
	TLSClientConfig    struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CAData     []byte `json:"caData"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
	} `json:"tlsClientConfig"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig"`
	ExecProviderConfig *struct {
		Command     string            `json:"command"`
		Args        []string          `json:"args"`
		Env         map[string]string `json:"env"`
		APIVersion  string            `json:"apiVersion"`
		InstallHint string            `json:"installHint"`
	} `json:"execProviderConfig"`
}

// argo returns the configuration of a client for a cluster's Secret of Argo CD.
func (t trust) argo(server string, content []byte) (*rest.Config, error) {
	var c argoConfig
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, errors.New("its config is not valid JSON of a cluster's Secret of Argo CD")
	}
	if len(c.AWSAuthConfig) > 0 && string(c.AWSAuthConfig) != "null" {
		return nil, errors.New("its config has awsAuthConfig, for which Argo CD runs its own program: use execProviderConfig")
	}
	if err := checkServer(server); err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:               server,
		Username:           c.Username,
		Password:           c.Password,
		BearerToken:        c.BearerToken,
		DisableCompression: c.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure:   c.TLSClientConfig.Insecure,
			ServerName: c.TLSClientConfig.ServerName,
			CAData:     c.TLSClientConfig.CAData,
			CertData:   c.TLSClientConfig.CertData,
			KeyData:    c.TLSClientConfig.KeyData,
		},
	}
	if err := setProxy(config, c.ProxyURL); err != nil {
		return nil, err
	}
	if p := c.ExecProviderConfig; p != nil {
		if !t.exec {
			return nil, errors.New("its config has execProviderConfig, which would run a program in this process: " +
				"set AllowExec to allow it")
		}
		config.ExecProvider = &api.ExecConfig{Command: p.Command, Args: p.Args, APIVersion: p.APIVersion,
			InstallHint: p.InstallHint, InteractiveMode: api.NeverExecInteractiveMode}
		for name, value := range p.Env {
			config.ExecProvider.Env = append(config.ExecProvider.Env, api.ExecEnvVar{Name: name, Value: value})
		}
	}
	return config, nil
}

// setProxy makes config use a proxy; an empty text means none.
func setProxy(config *rest.Config, proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil {
		return errors.New("the address of its proxy is invalid")
	}
	config.Proxy = http.ProxyURL(u)
	return nil
}

// digest identifies some bytes, without containing them.
type digest [sha256.Size]byte
