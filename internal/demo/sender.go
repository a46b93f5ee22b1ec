package demo

import (
	"context"
	"fmt"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	senderPatience = 10 * time.Second
	goodbye        = 100 // milliseconds, for the DISCONNECT to be written
)

// sender publishes as any MQTT client does, and nothing of ours: it sends what it
// sent before once more whenever it likes.
type sender struct{ client paho.Client }

func connectSender(ctx context.Context, broker string) (*sender, error) {
	o := paho.NewClientOptions().AddBroker("tcp://" + broker).SetClientID("oxyd-demo-sender").SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectTimeout(senderPatience).SetWriteTimeout(senderPatience)
	s := &sender{paho.NewClient(o)}
	if err := settle(ctx, s.client.Connect()); err != nil {
		s.close()
		return nil, fmt.Errorf("connect the sender: %w", err)
	}
	return s, nil
}

// send returns when the broker has acknowledged the messages.
func (s *sender) send(ctx context.Context, messages []Message) error {
	for _, m := range messages {
		if err := settle(ctx, s.client.Publish(m.Topic, 1, false, m.Payload)); err != nil {
			return fmt.Errorf("send to %s: %w", m.Topic, err)
		}
	}
	return nil
}

func settle(ctx context.Context, token paho.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sender) close() { s.client.Disconnect(goodbye) }
