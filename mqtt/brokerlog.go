package mqtt

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// brokerLog passes the log of nats-server on. Its notices are about every stream
// and its own inner life, which is what a reader of our log wants at Debug.
type brokerLog struct {
	log   zerolog.Logger
	fatal chan<- error // the first fatal error; the server does not exit
	// unwritable is set once a store could not be written. From then on that store
	// refuses every message, also when there is room again, and nothing but this
	// line of the log says so (nats-server v2.15, filestore.go).
	unwritable *atomic.Bool
}

func (b brokerLog) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	select {
	case b.fatal <- err:
	default:
	}
	b.log.Error().Err(err).Msg("broker cannot go on")
}

func (b brokerLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(strings.ToLower(text), "critical write error") {
		b.unwritable.Store(true)
	}
	b.log.Error().Str("detail", text).Msg("broker error")
}

func (b brokerLog) Warnf(format string, v ...any) {
	b.log.Warn().Str("detail", fmt.Sprintf(format, v...)).Msg("broker warning")
}

func (b brokerLog) Noticef(format string, v ...any) {
	b.log.Debug().Str("detail", fmt.Sprintf(format, v...)).Msg("broker notice")
}

func (b brokerLog) Debugf(format string, v ...any) {
	b.log.Trace().Str("detail", fmt.Sprintf(format, v...)).Msg("broker debug")
}

func (b brokerLog) Tracef(format string, v ...any) {
	b.log.Trace().Str("detail", fmt.Sprintf(format, v...)).Msg("broker trace")
}
