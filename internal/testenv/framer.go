package testenv

import (
	"encoding/binary"
	"strings"
)

// piece is what a wire passes on, or not, at once.
type piece struct {
	data  []byte
	last  int    // where in data the message begins that ends the batch
	batch *Batch // as far as it is known; nil: part of none
	opens bool   // the batch begins here
	ends  bool   // and it ends here
}

// framer cuts what one connection sends PostgreSQL into pieces. A batch is kept
// back until it is whole, so that what it is for is known before any of it goes
// on; only a Flush, which wants an answer, goes before its end.
type framer struct {
	batch   *draft
	started bool   // the start-up message, which has no letter, is over
	lost    bool   // this is not the protocol: it goes on as it comes
	kept    []byte // read, not passed on yet
	framed  int    // how much of kept is whole messages
	passed  bool   // some of the batch has been passed on
}

// cut returns what is complete once data has been read. A piece is valid until
// the next call.
func (f *framer) cut(data []byte) (pieces []piece) {
	f.kept = append(f.kept, data...)
	for {
		at := f.framed
		letter, body := f.next()
		if f.framed == at {
			break
		}
		if p := f.take(letter, body, at); p.data != nil {
			pieces = append(pieces, p)
		}
	}
	if f.lost {
		pieces = append(pieces, f.rest()...)
	}
	return pieces
}

// rest returns what is left when nothing more is to come.
func (f *framer) rest() []piece {
	if len(f.kept) == 0 {
		return nil
	}
	f.framed = len(f.kept)
	return []piece{f.part()}
}

// next frames one more message, if it is there. A start-up message gets the
// letter ^; what may come in its place, a cancellation or a question for
// encryption, gets !.
func (f *framer) next() (letter byte, body []byte) {
	message, head := f.kept[f.framed:], 1
	if !f.started {
		head = 0
	}
	if f.lost || len(message) < head+4 {
		return 0, nil
	}
	length := int(binary.BigEndian.Uint32(message[head:]))
	if f.lost = length < 4; f.lost || len(message) < head+length {
		return 0, nil
	}
	f.framed += head + length
	body = message[head+4 : head+length]
	if f.started {
		return message[0], body
	}
	const special = 1234 // in place of the protocol's major version
	if len(body) >= 2 && binary.BigEndian.Uint16(body) == special {
		return '!', body
	}
	f.started = true
	return '^', body
}

// take adds the message that begins at that place to the batch. The piece that
// it returns has no data if there is more to come.
func (f *framer) take(letter byte, body []byte, at int) piece {
	if f.batch.Messages == "" && strings.IndexByte("dcf", letter) >= 0 {
		return f.hand(piece{}) // a copy goes on after the batch that began it
	}
	f.batch.add(letter, body)
	switch letter {
	case 'H':
		return f.part()
	case 'S', 'Q', 'F', 'X', 'p', '^', '!':
		opens := !f.passed
		f.passed = false
		b := f.batch.concluded()
		return f.hand(piece{last: at, batch: &b, opens: opens, ends: true})
	}
	return piece{}
}

// part hands out what is framed of a batch that has not ended.
func (f *framer) part() piece {
	opens, b := !f.passed, f.batch.Batch
	f.passed = true
	return f.hand(piece{last: f.framed, batch: &b, opens: opens})
}

func (f *framer) hand(p piece) piece {
	p.data = f.kept[:f.framed]
	f.kept, f.framed = f.kept[f.framed:], 0
	return p
}
