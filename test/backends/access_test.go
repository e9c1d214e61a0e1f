package backends_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// secret is a password in a file, and its last lines are not part of it.
const secret = "hunter2 #&?"

func secretFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
	return path
}

// A password that no URL names is that of every server, and Sentinels have their
// own.
func TestLogsInWithPasswordsFromFiles(t *testing.T) {
	t.Parallel()
	file := secretFile(t)
	lock := func(t testing.TB, url string) {
		must(t, redisClient(t, url).ConfigSet(t.Context(), "requirepass", secret).Err())
	}
	for name, serve := range map[string]func(t *testing.T) string{
		"Redis": func(t *testing.T) string {
			server := testenv.OwnRedis(t)
			lock(t, server.URL())
			return fmt.Sprintf("redis: {url: %q, password_file: %s}\n", server.URL(), file)
		},
		"Redlock": func(t *testing.T) string {
			var urls []string
			for range 3 {
				server := testenv.OwnRedis(t)
				lock(t, server.URL())
				urls = append(urls, server.URL())
			}
			return fmt.Sprintf("redis: {redlock: {urls: %s}, password_file: %s}\nleases: {backend: redlock}\n", list(urls), file)
		},
		"Sentinel": func(t *testing.T) string {
			servers := testenv.OwnSentinels(t)
			for _, address := range servers.Addresses {
				c := redis.NewClient(&redis.Options{Addr: address})
				defer c.Close()
				must(t, c.Do(t.Context(), "SENTINEL", "SET", servers.Name, "auth-pass", secret).Err())
				must(t, c.Do(t.Context(), "ACL", "SETUSER", "watcher", "on", ">"+secret, "allcommands", "allchannels").Err())
				must(t, c.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
			}
			lock(t, servers.Master.URL())
			return fmt.Sprintf("redis: {sentinel: {master: %s, addresses: %s, username: watcher, password_file: %s}, password_file: %[3]s}\nleases: {backend: redis_sentinel}\n",
				servers.Name, list(servers.Addresses), file)
		},
		"Cluster": func(t *testing.T) string {
			servers := testenv.OwnRedisCluster(t)
			for _, server := range servers.Masters {
				c := redisClient(t, server.URL())
				must(t, c.Do(t.Context(), "ACL", "SETUSER", "gateway", "on", ">"+secret, "~fencegate:*", "+@all").Err())
				must(t, c.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
			}
			return fmt.Sprintf("redis: {cluster: {addresses: %s}, username: gateway, password_file: %s}\nleases: {backend: redis_cluster}\n", list(servers.Addresses), file)
		},
		"etcd": func(t *testing.T) string {
			members := testenv.OwnEtcd(t)
			c := etcdClient(t, members)
			for _, user := range []string{"root", "gateway"} {
				_, err := c.UserAdd(t.Context(), user, secret)
				must(t, err)
				_, err = c.RoleAdd(t.Context(), user)
				must(t, err)
				_, err = c.UserGrantRole(t.Context(), user, user)
				must(t, err)
			}
			_, err := c.RoleGrantPermission(t.Context(), "gateway", etcdPrefix, clientv3.GetPrefixRangeEnd(etcdPrefix), clientv3.PermissionType(clientv3.PermReadWrite))
			must(t, err)
			_, err = c.AuthEnable(t.Context())
			must(t, err)
			var endpoints []string
			for _, m := range members {
				endpoints = append(endpoints, m.Endpoint())
			}
			return fmt.Sprintf("etcd: {endpoints: %s, username: gateway, password_file: %s}\nleases: {backend: etcd}\n", list(endpoints), file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyDay(t, build(t, serve(t)))
		})
	}
}

// authority makes certificates for 127.0.0.1.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	must(t, os.Chmod(filepath.Dir(a.dir), 0o755)) // servers may run as another user
	must(t, os.Chmod(a.dir, 0o755))
	a.cert, a.key = a.issue(t, "ca", nil)
	return a
}

func (a *authority) issue(t testing.TB, name string, from *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: from == nil,
	}
	parent, signer := template, key
	if from != nil {
		parent, signer = from.cert, from.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + "-key.pem": {Type: "PRIVATE KEY", Bytes: raw},
	} {
		must(t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o644))
	}
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// Servers are checked against ca_file, and check the gateway's certificate.
func TestTLSWithCertificatesOfOnesOwn(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(t, "server", a)
	a.issue(t, "gateway", a)
	ports, err := devstack.FreePorts(2)
	must(t, err)
	server, err := devstack.StartRedis(t.Context(), devstack.RedisConfig{Port: ports[0], Args: []string{
		"--tls-port", fmt.Sprint(ports[1]), "--tls-ca-cert-file", a.file("ca.pem"),
		"--tls-cert-file", a.file("server.pem"), "--tls-key-file", a.file("server-key.pem"),
	}})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	address := fmt.Sprintf("url: 'rediss://127.0.0.1:%d/0'", ports[1])
	if answer := build(t, "redis: {"+address+"}\n").TryAcquire(t, "inventory:A", 0); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a server of an unknown authority: %d %s", answer.Status, answer.Body)
	}
	files := fmt.Sprintf("ca_file: %s, cert_file: %s, key_file: %s", a.file("ca.pem"), a.file("gateway.pem"), a.file("gateway-key.pem"))
	everyDay(t, build(t, "redis: {"+address+", "+files+"}\n"))
}
