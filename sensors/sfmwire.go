package sensors

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// command sends commands; arguments carry a check sum, a command has its own.
func (d *SFM) command(command uint16, arguments ...uint16) error {
	w := binary.BigEndian.AppendUint16(nil, command)
	for _, a := range arguments {
		b := binary.BigEndian.AppendUint16(nil, a)
		w = append(append(w, b...), sfmCRC(b, d.crcInit()))
	}
	if err := d.dev.Tx(w, nil); err != nil {
		return busFault(fmt.Sprintf("send command %#04x", command), err)
	}
	return nil
}

// ask sends a command and reads its answer of n words.
func (d *SFM) ask(ctx context.Context, n int, command uint16, arguments ...uint16) ([]uint16, error) {
	if err := d.clock.Sleep(ctx, sfmCommandTime); err != nil {
		return nil, waitFault(err)
	}
	if err := d.command(command, arguments...); err != nil {
		return nil, err
	}
	if err := d.clock.Sleep(ctx, sfmCommandTime); err != nil {
		return nil, waitFault(err)
	}
	return d.read(n)
}

// read reads n words. The buffer begins as what no part sends, so that a transfer
// which reports success and moved nothing is a fault.
func (d *SFM) read(n int) ([]uint16, error) {
	r := make([]byte, 3*n)
	for i := range r {
		r[i] = 0xff
	}
	if err := d.dev.Tx(nil, r); err != nil {
		return nil, busFault("read", err)
	}
	return parseSFM(r, d.crcInit())
}

func (d *SFM) crcInit() byte {
	if d.spec.old {
		return sfmOldCRC
	}
	return sfmNewCRC
}

// parseSFM reads words of two bytes, each with its check sum. One wrong sum refuses
// all: the line was disturbed. Where the sum begins with 0, all zeros have a right
// one, and are refused as well.
func parseSFM(b []byte, init byte) ([]uint16, error) {
	zeros, ones := true, true
	for _, v := range b {
		zeros, ones = zeros && v == 0, ones && v == 0xff
	}
	switch {
	case len(b) == 0 || len(b)%3 != 0:
		return nil, &Fault{Reason: ReasonImplausible, Detail: fmt.Sprintf("%d bytes are no words with check sums", len(b))}
	case ones:
		return nil, &Fault{Reason: ReasonBus, Detail: "all ones: SDA is stuck high, or nothing was moved"}
	case zeros:
		return nil, &Fault{Reason: ReasonBus, Detail: "all zeros: SDA is stuck low"}
	}
	words := make([]uint16, 0, len(b)/3)
	for w := range slices.Chunk(b, 3) {
		if got, want := w[2], sfmCRC(w[:2], init); got != want {
			return nil, &Fault{Reason: ReasonCRC, Detail: fmt.Sprintf("word % x has the check sum %02x, want %02x", w[:2], got, want)}
		}
		words = append(words, binary.BigEndian.Uint16(w))
	}
	return words, nil
}

// sfmCRC is the check sum of two bytes: polynomial x⁸+x⁵+x⁴+1, nothing reflected.
func sfmCRC(b []byte, init byte) byte {
	crc := init
	for _, v := range b {
		crc ^= v
		for range 8 {
			top := crc & 0x80
			crc <<= 1
			if top != 0 {
				crc ^= 0x31
			}
		}
	}
	return crc
}
