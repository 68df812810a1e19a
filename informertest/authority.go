package informertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"
)

// validity is how long a certificate is valid, as those of kubeadm's authority.
const validity = 10 * 365 * 24 * time.Hour

// authority is a certificate authority. It signs the certificate of the server and those of its clients.
type authority struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	pem    []byte
	serial atomic.Int64
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	template := a.template(pkix.Name{CommonName: "informertest"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

func (a *authority) template(name pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)),
		Subject:      name,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}
}

// issue returns a certificate for that subject and its key, in PEM.
func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), nil
}

// issueClient returns a certificate of a client: the user is its common name, and the groups are its organizations.
func (a *authority) issueClient(user string, groups []string) (cert, key []byte, err error) {
	template := a.template(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// serving returns the configuration of the server: HTTP/1.1, so that a fault of a connection is a fault of one request.
// It asks clients for a certificate, and leaves it to verify to check that.
func (a *authority) serving(host string) (*tls.Config, error) {
	template := a.template(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{host, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	cert, key, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{pair},
		ClientAuth:             tls.RequestClientCert,
		NextProtos:             []string{"http/1.1"},
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true, // the server would write them while the client writes its request
	}, nil
}

// verify returns the subject of a client's certificate.
func (a *authority) verify(cert *x509.Certificate) (pkix.Name, error) {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return pkix.Name{}, fmt.Errorf("the client's certificate: %w", err)
	}
	return cert.Subject, nil
}
