package mqtt

import (
	"errors"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// Presence is the retained status topic of one client: whoever subscribes, at
// any time, learns whether it lives. All three messages are QoS 1, retained, on
// the same topic. The zero Presence is none.
type Presence struct {
	Topic string
	// Birth is called at each connect and published before anything else.
	Birth func() []byte
	// Will is called at each connect and published by the broker when that connection
	// ends without a clean stop.
	Will func() []byte
	// Goodbye is published by this side at a clean stop, when the broker
	// publishes no will.
	Goodbye func() []byte
}

func (p *Presence) none() bool { return p == nil || p.Topic == "" }

func (p *Presence) validate() error {
	switch {
	case p.none():
		return nil
	case !ValidTopic(p.Topic):
		return errors.New("presence topic is not a topic name")
	case p.Birth == nil || p.Goodbye == nil || p.Will == nil:
		return errors.New("presence needs a birth, a will and a goodbye")
	}
	return nil
}

func (p *Presence) setWill(o *paho.ClientOptions) {
	if !p.none() {
		o.SetBinaryWill(p.Topic, p.Will(), 1, true)
	}
}
