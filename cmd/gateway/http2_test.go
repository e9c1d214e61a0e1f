package main_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// two principals who may do the same, over TLS.
type two struct {
	*testenv.Gateway
	ours       *authority
	keys       map[string]string
	transports []*http.Transport
}

func startTwo(t *testing.T, config string) *two {
	t.Helper()
	return startTwoOn(t, testenv.Shop(t), config)
}

func startTwoOn(t *testing.T, db *testenv.Database, config string) *two {
	t.Helper()
	s := &two{ours: newAuthority(t), keys: map[string]string{}}
	auth := "auth: required\nroles:\n  - {name: worker, tables: [{table: shop.inventory}], locks: ['*']}\nprincipals:\n"
	for _, name := range []string{"storm", "other"} {
		text, key := identity.NewKey(time.Time{})
		s.keys[name] = text
		auth += fmt.Sprintf("  - {name: %s, roles: [worker], api_keys: [{id: '%s', sha256: '%x'}]}\n", name, key.ID, key.SHA256)
	}
	s.Gateway = testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Auth: auth, Config: section("tls", s.ours.issued(t, 2), "") + config})
	return s
}

// connection returns a client with a connection of its own.
func (s *two) connection(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ours.pool()}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// send returns the status, 0 without an answer.
func (s *two) send(t *testing.T, over *http.Client, as, method, path string, body io.Reader, length int64, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, https(s.URL)+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.keys[as])
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := over.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Errorf("it speaks %s", resp.Proto)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// acquire takes a lock that nobody takes after it.
func (s *two) acquire(t *testing.T, over *http.Client, as, key string) (int, string) {
	body := fmt.Sprintf(`{"key":%q,"ttl_ms":60000}`, key)
	return s.send(t, over, as, http.MethodPost, "/v1/leases", strings.NewReader(body), int64(len(body)))
}

// slow is a body whose end does not come before it is told to.
type slow struct {
	left int64
	said func() // all is sent but the end
	end  chan struct{}
}

func (b *slow) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.said()
		<-b.end
		return 0, io.ErrUnexpectedEOF
	}
	n := min(int64(len(p)), b.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	b.left -= n
	return int(n), nil
}

// Bodies that come and never end take memory up to a bound, which leaves somebody else
// theirs.
func TestSlowBodiesAreBounded(t *testing.T) {
	t.Parallel()
	const connections, streams, size = 20, 50, 1 << 20
	s := startTwo(t, "limits: {request_timeout: 5m}\n")
	other := s.connection(t)
	s.ForgetPeak(t)
	before := s.PeakMemory(t)
	end := make(chan struct{})
	var settled, all sync.WaitGroup
	var held, refused atomic.Int64
	settled.Add(connections * streams)
	for range connections {
		over := s.connection(t)
		for range streams {
			all.Go(func() {
				settle := sync.OnceFunc(settled.Done)
				defer settle()
				body := &slow{left: size - 1, end: end, said: func() { held.Add(1); settle() }}
				switch status, answer := s.send(t, over, "storm", http.MethodPost, "/v1/leases", body, size); status {
				case 0: // its end came
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("%d %s", status, answer)
				}
			})
		}
	}
	settled.Wait()
	for n := range 20 {
		if status, answer := s.acquire(t, other, "other", fmt.Sprintf("job:%d", n)); status != http.StatusCreated {
			t.Errorf("somebody else: %d %s", status, answer)
		}
	}
	if status, _ := s.acquire(t, other, "storm", "job:storm"); status != http.StatusTooManyRequests {
		t.Errorf("%d once the share is used up", status)
	}
	grown := s.PeakMemory(t) - before
	t.Logf("%d bodies of 1 MiB: %d held, %d refused, %d MiB more", connections*streams, held.Load(), refused.Load(), grown>>20)
	if held.Load() > 64 || refused.Load() == 0 {
		t.Errorf("%d bodies are held, %d refused", held.Load(), refused.Load())
	}
	if most := s.memory(t, 256<<20); grown > most {
		t.Errorf("it took %d MiB more, not at most %d", grown>>20, most>>20)
	}
	close(end)
	all.Wait()
	for status := 0; status != http.StatusCreated; {
		if status, _ = s.acquire(t, other, "storm", "job:storm"); status != http.StatusCreated && status != http.StatusTooManyRequests {
			t.Fatalf("once they have ended: %d", status)
		}
	}
}

// memory is what is needed for so much: more under the race detector.
func (s *two) memory(t *testing.T, most int64) int64 {
	if s.Races(t) {
		return 5 * most
	}
	return most
}

// settings returns what the gateway says of a connection.
func (s *two) settings(t *testing.T) (said map[http2.SettingID]uint32, framer *http2.Framer) {
	t.Helper()
	conn, err := tls.Dial("tcp", hostOf(s.URL), &tls.Config{RootCAs: s.ours.pool(), NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer, said = http2.NewFramer(conn, conn), map[http2.SettingID]uint32{}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)
	if err != nil || !ok {
		t.Fatalf("%v, %v", frame, err)
	}
	settings.ForeachSetting(func(one http2.Setting) error {
		said[one.ID] = one.Val
		return nil
	})
	return said, framer
}

func TestAnHTTP2ConnectionIsBounded(t *testing.T) {
	t.Parallel()
	s := startTwo(t, "")
	said, framer := s.settings(t)
	for id, most := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 100, http2.SettingMaxFrameSize: 16 << 10,
		http2.SettingInitialWindowSize: 64 << 10, http2.SettingMaxHeaderListSize: 33 << 10,
	} {
		if got, given := said[id]; !given || got > most {
			t.Errorf("%s is %d, more than %d", id, got, most)
		}
	}
	// A larger frame ends the connection, before it is read.
	if err := framer.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 17<<10)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ended without a word: %v", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeFrameSize {
				t.Errorf("%s", away.ErrCode)
			}
			return
		}
	}
}

// Requests that are nobody's, and whose answers nobody reads, are cut off before they
// are in anybody's way.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	t.Parallel()
	s := startTwo(t, "limits: {max_in_flight: 4, max_connections: 8}\n")
	const streams = 60 // 16 may be there at once, 4 of them of nobody
	_, framer := s.settings(t)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for n := range uint32(streams) {
		if err := s.open(t, framer, 2*n+1, "wrong"); err != nil {
			t.Fatal(err)
		}
	}
	answered, cutOff := 0, 0
	for answered+cutOff < streams {
		frame, err := framer.ReadFrame()
		switch frame.(type) {
		case *http2.HeadersFrame:
			answered++
		case *http2.RSTStreamFrame:
			cutOff++
		default:
			if err != nil {
				t.Fatalf("after %d answers and %d resets: %v", answered, cutOff, err)
			}
		}
	}
	if answered > 4 {
		t.Errorf("%d answers wait to be read", answered)
	}
	if status, answer := s.acquire(t, s.connection(t), "other", "job:other"); status != http.StatusCreated {
		t.Errorf("%d %s", status, answer)
	}
}

// open begins a read on a stream of its own.
func (s *two) open(t *testing.T, framer *http2.Framer, stream uint32, as string) error {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/rest/inventory"},
		{"authorization", "Bearer " + s.keys[as]}} {
		// Never indexed: an encoder for each stream must not count on an earlier one's table.
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
}

// A storm of streams that are opened and reset at once leaves no work behind on the
// database, and is nobody else's loss.
func TestStreamsThatAreResetAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	const storm, mostConnections = 3000, 2 + 2 + 20 // as gateway doctor counts them
	db := testenv.Shop(t)
	s := startTwoOn(t, db, fmt.Sprintf("limits: {max_in_flight: 8}\ndatabase: {url: '%s', reload_on_notify: false, pool_size: 2, read_pool_size: 2}\n", db.URL))
	pool := db.Pool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE shop.inventory IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	_, framer := s.settings(t)
	go func() {
		for {
			if _, err := framer.ReadFrame(); err != nil {
				return
			}
		}
	}()
	other := s.connection(t)
	for n := range uint32(storm) {
		if err := cmp.Or(s.open(t, framer, 2*n+1, "storm"), framer.WriteRSTStream(2*n+1, http2.ErrCodeCancel)); err != nil {
			t.Logf("the connection ended after %d", n)
			break
		}
		if n%100 > 0 {
			continue
		}
		if status, answer := s.acquire(t, other, "other", fmt.Sprintf("job:%d", n)); status != http.StatusCreated {
			t.Errorf("somebody else, after %d: %d %s", n, status, answer)
		}
		var open int
		if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&open); err != nil || open > mostConnections {
			t.Errorf("%d connections to the database, %v", open, err)
		}
	}
}
