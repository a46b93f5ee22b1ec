package mqtt

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// streamsPatience bounds the configuration of the streams at the start.
const streamsPatience = 10 * time.Second

// The gateway makes its streams without a bound of their own. Then one full
// session would use up the room of everything else, and nobody could connect any
// more, not even the subscriber that would make room: each connect writes to the
// store. So the streams are made here, each with its share, in sixteenths of
// MaxBytes, and refuse at the bound instead of dropping the oldest.
const (
	shareMessages = 11
	shareRetained = 2
	shareSessions = 1
	shareQoS2In   = 1
	shareQoS2Out  = 1
	sixteenths    = 16
)

// brokerStreams are the gateway's own streams, as it would make them itself
// (mqttCreateAccountSessionManager in nats-server's mqtt.go), but bounded.
func brokerStreams(maxBytes int64) []server.StreamConfig {
	stream := func(name, subject string, share int64) server.StreamConfig {
		return server.StreamConfig{
			Name:     name,
			Subjects: []string{subject},
			Storage:  server.FileStorage,
			Replicas: 1,
			MaxBytes: maxBytes / sixteenths * share,
			Discard:  server.DiscardNew,
		}
	}
	messages := stream("$MQTT_msgs", "$MQTT.msgs.>", shareMessages)
	messages.Retention = server.InterestPolicy
	retained := stream("$MQTT_rmsgs", "$MQTT.rmsgs.>", shareRetained)
	retained.MaxMsgsPer = 1
	sessions := stream("$MQTT_sess", "$MQTT.sess.>", shareSessions)
	sessions.MaxMsgsPer = 1
	in := stream("$MQTT_qos2in", "$MQTT.qos2.in.>", shareQoS2In)
	in.MaxMsgsPer, in.DiscardNewPer = 1, true
	out := stream("$MQTT_out", "$MQTT.out.>", shareQoS2Out)
	out.Retention = server.InterestPolicy
	return []server.StreamConfig{messages, retained, sessions, in, out}
}

// boundStreams makes the streams, or gives those of an earlier run their bounds.
func boundStreams(s *server.Server, maxBytes int64) error {
	conn, err := s.InProcessConn()
	if err != nil {
		return fmt.Errorf("open in-process connection: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(streamsPatience)); err != nil {
		return err
	}
	api, err := newStreamAPI(conn)
	if err != nil {
		return err
	}
	const notFound = 10059 // JSStreamNotFoundErr
	for _, c := range brokerStreams(maxBytes) {
		err := api.request("UPDATE", c)
		var refusal *server.ApiError
		if errors.As(err, &refusal) && refusal.ErrCode == notFound {
			err = api.request("CREATE", c)
		}
		if err != nil {
			return fmt.Errorf("bound stream %s to %d bytes: %w", c.Name, c.MaxBytes, err)
		}
	}
	return nil
}

// streamAPI speaks as much of the NATS client protocol as configuring a stream
// takes (docs.nats.io/reference/reference-protocols/nats-protocol).
type streamAPI struct {
	conn net.Conn
	in   *bufio.Reader
}

const streamAPIInbox = "_oxyd_streams"

func newStreamAPI(conn net.Conn) (*streamAPI, error) {
	a := &streamAPI{conn: conn, in: bufio.NewReader(conn)}
	if _, err := a.line("INFO "); err != nil {
		return nil, err
	}
	if err := a.send(`CONNECT {"verbose":false,"pedantic":false}` + "\r\nSUB " + streamAPIInbox + " 1\r\nPING\r\n"); err != nil {
		return nil, err
	}
	_, err := a.line("PONG")
	return a, err
}

func (a *streamAPI) request(verb string, c server.StreamConfig) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := a.send(fmt.Sprintf("PUB $JS.API.STREAM.%s.%s %s %d\r\n%s\r\n", verb, c.Name, streamAPIInbox, len(body), body)); err != nil {
		return err
	}
	head, err := a.line("MSG ")
	if err != nil {
		return err
	}
	var size int
	if _, err := fmt.Sscanf(head, "MSG "+streamAPIInbox+" 1 %d", &size); err != nil {
		return fmt.Errorf("parse answer %q: %w", head, err)
	}
	answer := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(a.in, answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	var response server.ApiResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("parse answer: %w", err)
	}
	if response.Error != nil {
		return response.Error
	}
	return nil
}

func (a *streamAPI) send(s string) error {
	if _, err := io.WriteString(a.conn, s); err != nil {
		return fmt.Errorf("write to broker: %w", err)
	}
	return nil
}

// line reads up to the line that starts with want.
func (a *streamAPI) line(want string) (string, error) {
	for {
		line, err := a.in.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("read from broker: %w", err)
		}
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, want):
			return line, nil
		case line == "PING":
			if err := a.send("PONG\r\n"); err != nil {
				return "", err
			}
		case strings.HasPrefix(line, "-ERR"):
			return "", fmt.Errorf("broker answered %s", line)
		}
	}
}
