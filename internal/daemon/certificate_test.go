package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"periph.io/x/conn/v3/physic"

	"oxyd/internal/config"
	"oxyd/internal/event"
	"oxyd/internal/mqtttest"
	"oxyd/mqtt"
)

// FC-50 as an operator sees it: a certificate that holds from tomorrow on is, to this
// board, what any certificate is in 1970. GET /api/status says so, /readyz too, and
// what is measured meanwhile is kept.
func TestFC50StatusNamesTheClock(t *testing.T) {
	address, ca := brokerOfTomorrow(t)
	b := statusBoard(t)
	b.cfg.MQTT = config.MQTT{Broker: "mqtts://" + address, CAFile: ca}
	b.publisher = mqtt.NewPublisher(b.connection("ctl-3-pub"), queue{b.outbox}, mqtt.Presence{}, zerolog.Nop())
	g, ctx := errgroup.WithContext(t.Context())
	t.Cleanup(func() {
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	g.Go(func() error { return b.publisher.Run(ctx) })
	want := "certificate not yet valid: it holds from "
	if !b.clock.Synced() {
		want = "clock not synchronised, " + want
	}
	mqtttest.Eventually(t, "an attempt to fail", func() bool { return b.publisher.Status().LastError != "" })
	doc, err := b.status()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Clock string
		MQTT  map[string]connectionDocument
	}
	if err := json.Unmarshal(mustJSON(doc), &got); err != nil {
		t.Fatal(err)
	}
	if p := got.MQTT["publisher"]; p.Connected || !strings.Contains(p.LastError, want) || got.Clock != b.clockWord() {
		t.Errorf("status %+v, want not connected and %q", got, want)
	}
	if err := b.ready(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ready = %v, want %q", err, want)
	}
	if err := b.append(event.Event{Type: event.Consumed, Tank: "A", Amount: 5 * physic.Gram, Version: event.WireVersion}); err != nil {
		t.Errorf("nothing can be kept meanwhile: %v", err)
	}
	if s, err := b.outbox.Stats(); err != nil || s.Pending != 1 {
		t.Errorf("pending %d, %v, want 1", s.Pending, err)
	}
}

// brokerOfTomorrow listens with a certificate that is not valid yet, and gives the
// file of the authority, which is.
func brokerOfTomorrow(t *testing.T) (address, caFile string) {
	t.Helper()
	issue := func(c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		c.SerialNumber = big.NewInt(time.Now().UnixNano())
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	now := time.Now()
	authority := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(100 * time.Hour)}
	caDER, caKey := issue(authority, authority, nil)
	server := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: now.Add(24 * time.Hour), NotAfter: now.Add(48 * time.Hour)}
	der, key := issue(server, authority, caKey)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	mqtttest.ListenOn(t, l)
	return l.Addr().String(), caFile
}
