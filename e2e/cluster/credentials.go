package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// credentials are the credentials that the API server trusts: files in the cluster's folder that only the user can
// read. Each cluster has new ones.
type credentials struct {
	token          string // of the user admin
	tokenFile      string
	accountKey     string // signs the tokens of service accounts
	accountPublic  string
	certificateDir string // the server writes its certificate and key here, once
}

func newCredentials(dir string) (*credentials, error) {
	c := &credentials{
		token:          rand.Text(),
		tokenFile:      filepath.Join(dir, "tokens.csv"),
		accountKey:     filepath.Join(dir, "service-account.key"),
		accountPublic:  filepath.Join(dir, "service-account.pub"),
		certificateDir: filepath.Join(dir, "certificates"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cluster: generate the service account key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode the service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode the public service account key: %w", err)
	}
	for path, content := range map[string][]byte{
		c.tokenFile:     []byte(c.token + ",admin,admin,system:masters\n"),
		c.accountKey:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		c.accountPublic: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("cluster: write credentials: %w", err)
		}
	}
	return c, nil
}

// authority returns the PEM certificate that verifies the API server's own. The file appears some time after the first
// start of the server.
func (c *credentials) authority() ([]byte, error) {
	pem, err := os.ReadFile(filepath.Join(c.certificateDir, "apiserver.crt"))
	if err != nil {
		return nil, fmt.Errorf("cluster: read the API server's certificate: %w", err)
	}
	return pem, nil
}
