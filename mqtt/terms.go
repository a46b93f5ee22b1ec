package mqtt

import "fmt"

// eventQoS is the quality of service of everything but telemetry: at least once.
// There is no setting for another one. QoS 2 ends at the broker and would promise
// nothing about an effect.
const eventQoS = 1

// Terms are what a client asks of its broker, read from the very options that it
// connects with.
type Terms struct {
	ClientID        string
	ProtocolVersion uint // 4 is MQTT 3.1.1
	CleanSession    bool // the broker forgets what waits for the client when it goes
	AutoAck         bool // the library acknowledges when its handler returns
	QoS             byte // what is sent with, or subscribed with and insisted on
}

// Terms gives what every connection of the Subscriber asks for.
func (s *Subscriber) Terms() (Terms, error) { return s.conn.terms(s.begin) }

// Terms gives what every connection of the Publisher asks for.
func (p *Publisher) Terms() (Terms, error) { return p.conn.terms(p.begin) }

// terms makes the options of a connection and makes none. The password stays where
// it is.
func (c *connector) terms(begin beginFunc) (Terms, error) {
	o := c.opts
	o.PasswordFile = ""
	po, err := o.client()
	if err != nil {
		return Terms{}, fmt.Errorf("make client options: %w", err)
	}
	begin(po, &link{})
	return Terms{ClientID: po.ClientID, ProtocolVersion: po.ProtocolVersion, CleanSession: po.CleanSession,
		AutoAck: !po.AutoAckDisabled, QoS: eventQoS}, nil
}
