package mqtt

import (
	"context"
	"errors"
	"fmt"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// errOutOfPatience ends the wait for PUBACKs at a stop.
var errOutOfPatience = errors.New("stop without the last PUBACKs")

// window holds the messages of one connection that are sent and not settled, in
// the order of sending. The sender fills it, settle empties it.
type window struct {
	slots chan struct{} // one for each message
	sent  chan sent     // has room for all of them: pushing never blocks
}

// sent is a message on its way: a row of the queue, or a retained value.
type sent struct {
	token      paho.Token
	at         time.Time
	row        uint64 // 0: not of the queue
	retained   retainedMessage
	connection uint64
}

func newWindow() *window {
	return &window{slots: make(chan struct{}, Window), sent: make(chan sent, Window)}
}

// send fills the window until ctx or the connection ends: the birth first, then
// rows and retained values by turns, so that neither waits for the other.
func (p *Publisher) send(ctx context.Context, l *link, w *window, connection uint64) error {
	if !p.presence.none() {
		p.sendRetained(ctx, l, w, connection, retainedMessage{topic: p.presence.Topic, payload: p.presence.Birth()})
	}
	var (
		rows  []Outgoing
		after uint64
		more  = true // the queue may have rows behind after
	)
	for ctx.Err() == nil && !l.isLost() {
		if !more {
			more = p.woken()
		}
		if len(rows) == 0 && more {
			var err error
			if rows, err = p.read(l, after); err != nil {
				return err
			}
			more = len(rows) > 0
		}
		idle := len(rows) == 0
		if len(rows) > 0 {
			p.sendRow(ctx, l, w, rows[0])
			after, rows = rows[0].Row, rows[1:]
		}
		if m, ok := p.retained.take(connection); ok {
			p.sendRetained(ctx, l, w, connection, m)
			idle = false
		}
		if p.sendTelemetry(l) {
			idle = false
		}
		if idle {
			more = p.idle(ctx, l)
		}
	}
	return nil
}

// read takes the next rows from the queue, unless the connection has ended: its
// successor may be reading already.
func (p *Publisher) read(l *link, after uint64) ([]Outgoing, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	if l.isLost() {
		return nil, nil
	}
	rows, err := p.queue.Next(after, readMax)
	if err != nil {
		p.queueErrors.Add(1)
		return nil, fmt.Errorf("read the queue after row %d: %w", after, err)
	}
	for _, m := range rows {
		if m.Row <= after {
			p.queueErrors.Add(1)
			return nil, fmt.Errorf("queue gave row %d after row %d", m.Row, after)
		}
		after = m.Row
	}
	return rows, nil
}

// woken takes the queue's hint, if there is one: retained values may keep the
// sender from ever being idle.
func (p *Publisher) woken() bool {
	select {
	case <-p.queue.Wake():
		return true
	default:
		return false
	}
}

// idle waits for something to send and reports whether it may be a row.
func (p *Publisher) idle(ctx context.Context, l *link) (more bool) {
	recheck := time.NewTimer(recheckEvery)
	defer recheck.Stop()
	select {
	case <-p.queue.Wake():
		return true
	case <-recheck.C:
		return true
	case <-p.retained.wake:
	case m := <-p.telemetry:
		p.publishTelemetry(l, m)
	case <-ctx.Done():
	case <-l.lost:
	}
	return false
}

func (p *Publisher) sendRow(ctx context.Context, l *link, w *window, m Outgoing) {
	if !w.acquire(ctx, l) {
		return
	}
	p.published.Add(1)
	if m.Row <= p.highest.Load() {
		p.resent.Add(1)
	} else {
		p.highest.Store(m.Row)
	}
	token := l.publish(m.Topic, false, m.Payload)
	w.sent <- sent{token: token, at: time.Now(), row: m.Row}
}

func (p *Publisher) sendRetained(ctx context.Context, l *link, w *window, connection uint64, m retainedMessage) {
	if !w.acquire(ctx, l) {
		return
	}
	p.retainedSent.Add(1)
	token := l.publish(m.topic, true, m.payload)
	w.sent <- sent{token: token, at: time.Now(), retained: m, connection: connection}
}

// acquire waits for room in the window. It reports false when the connection
// ends, or is to end, before there is any.
func (w *window) acquire(ctx context.Context, l *link) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-l.lost:
	}
	return false
}

func (p *Publisher) sendTelemetry(l *link) bool {
	select {
	case m := <-p.telemetry:
		p.publishTelemetry(l, m)
		return true
	default:
		return false
	}
}

func (p *Publisher) publishTelemetry(l *link, m telemetryMessage) {
	l.client.Publish(m.topic, 0, false, m.payload)
	p.telemetrySent.Add(1)
}

// settle takes the PUBACKs in the order of sending and confirms rows to the
// queue, until the connection ends; or until the sender has stopped and nothing
// is owed, or patience ends, when it returns nil.
func (p *Publisher) settle(patience context.Context, l *link, w *window) error {
	var ahead []sent // taken off the window, PUBACK not seen yet; at most one
	progress := time.Now()
	for {
		if len(ahead) == 0 {
			select {
			case s, ok := <-w.sent:
				if !ok {
					return l.endedOr(nil)
				}
				ahead = append(ahead, s)
			case <-patience.Done():
				return nil
			case <-l.lost:
				return l.err
			}
		}
		if err := p.awaitHead(patience, l, ahead[0], progress); err != nil {
			if errors.Is(err, errOutOfPatience) {
				return nil
			}
			return err
		}
		var done []sent
		done, ahead = w.doneBehind(ahead)
		p.acknowledged.Add(uint64(len(done)))
		if err := p.confirm(done); err != nil {
			return err
		}
		for range done {
			<-w.slots
		}
		progress = time.Now()
	}
}

// awaitHead waits for the PUBACK of the oldest message on its way. The time runs
// from its sending or from the last PUBACK, whichever is later: a broker on a slow
// disk may need long for a full window, and is alive as long as it acknowledges.
func (p *Publisher) awaitHead(patience context.Context, l *link, head sent, progress time.Time) error {
	since := head.at
	if progress.After(since) {
		since = progress
	}
	timeout := time.NewTimer(time.Until(since.Add(p.conn.opts.AckTimeout)))
	defer timeout.Stop()
	select {
	case <-head.token.Done():
		if err := head.token.Error(); err != nil {
			return l.endedOr(fmt.Errorf("publish: %w", err))
		}
		return nil
	case <-l.lost:
		return l.err
	case <-patience.Done():
		return errOutOfPatience
	case <-timeout.C:
		if head.acknowledged() {
			return nil
		}
		p.ackTimeouts.Add(1)
		return fmt.Errorf("%w: PUBACK owed for %v (row %d, topic %q)", ErrNoAnswer, p.conn.opts.AckTimeout, head.row, head.retained.topic)
	}
}

// doneBehind returns the messages that are acknowledged already, in order and
// without a gap, starting with the one in ahead, and the first that is not.
func (w *window) doneBehind(ahead []sent) (done, rest []sent) {
	done = ahead
	for len(done) < confirmMax {
		select {
		case s, ok := <-w.sent:
			if !ok {
				return done, nil
			}
			if !s.acknowledged() {
				return done, []sent{s}
			}
			done = append(done, s)
		default:
			return done, nil
		}
	}
	return done, nil
}

func (s sent) acknowledged() bool {
	select {
	case <-s.token.Done():
		return s.token.Error() == nil
	default:
		return false
	}
}

func (p *Publisher) confirm(done []sent) error {
	rows := make([]uint64, 0, len(done))
	for _, s := range done {
		if s.row != 0 {
			rows = append(rows, s.row)
		} else {
			p.retained.acked(s.connection, s.retained)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := p.queue.Confirm(rows); err != nil {
		p.queueErrors.Add(1)
		return fmt.Errorf("confirm rows %d to %d: %w", rows[0], rows[len(rows)-1], err)
	}
	p.confirmed.Add(uint64(len(rows)))
	return nil
}
