package chip

import (
	"errors"
	"sync"

	"periph.io/x/conn/v3"
	"periph.io/x/conn/v3/spi"
)

// SPIDevice is a chip behind a chip select. Exchange is one frame, from the
// select's fall to its rise: the chip is clocked len(w) bytes in, and gives as
// many.
type SPIDevice interface {
	Exchange(w []byte) []byte
}

// SPI implements spi.Conn and io.Closer over a model. Without a device MISO reads
// as Idle.
type SPI struct {
	Name string
	Idle byte

	// Before, if set, sees every frame first, with its number from 0. An error is
	// the frame's, and the device does not see it; ErrNothingMoved makes it a
	// success that moved nothing.
	Before func(n int, w []byte) error
	// Garble, if set, may change what was clocked in, and After sees every frame
	// that was done.
	Garble func(n int, r []byte)
	After  func(n int)

	mu     sync.Mutex
	device SPIDevice
	n      int
	closed int
}

// Plug puts a device behind the chip select; nil takes it away.
func (s *SPI) Plug(d SPIDevice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.device = d
}

// Frames is how many there were.
func (s *SPI) Frames() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Closed is how often it was closed.
func (s *SPI) Closed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *SPI) String() string { return s.Name }

// Duplex implements conn.Conn.
func (s *SPI) Duplex() conn.Duplex { return conn.Full }

// Tx implements spi.Conn: r is empty or as long as w.
func (s *SPI) Tx(w, r []byte) error {
	if len(r) != 0 && len(r) != len(w) {
		return errors.New("test bus: both ways must be equally long")
	}
	s.mu.Lock()
	n, d := s.n, s.device
	s.n++
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(n, w); err == ErrNothingMoved {
			return nil
		} else if err != nil {
			return err
		}
	}
	in := make([]byte, len(w))
	for i := range in {
		in[i] = s.Idle
	}
	if d != nil {
		in = d.Exchange(w)
	}
	copy(r, in)
	if s.Garble != nil {
		s.Garble(n, r)
	}
	if s.After != nil {
		s.After(n)
	}
	return nil
}

// TxPackets implements spi.Conn for packets that each end with the chip select.
func (s *SPI) TxPackets(p []spi.Packet) error {
	for _, packet := range p {
		if err := s.Tx(packet.W, packet.R); err != nil {
			return err
		}
	}
	return nil
}

// Close implements io.Closer.
func (s *SPI) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}
