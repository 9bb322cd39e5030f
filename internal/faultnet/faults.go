package faultnet

import (
	"fmt"
	"time"
)

// Faults are what happens to packets.
type Faults struct {
	LossUp, LossDown float64       // share of packets that never arrive, 0–1: from the clients, to them
	Duplicate        float64       // share of packets that arrive twice, 0–1
	Delay            time.Duration // of every packet, each way, at most a minute
	Jitter           time.Duration // at most so much more for each packet, by chance: later ones overtake
	Rate             int           // bits a second from each client, with a quarter of a second of queue; 0 = any
	Down             bool          // nothing goes either way
}

// Counts are of one way.
type Counts struct {
	Passed     uint64 // handed on, or on their way
	Duplicated uint64 // of those, the ones that went twice
	Lost       uint64 // by LossUp, LossDown or Down
	OverRate   uint64 // because Rate's queue was full
	Dropped    uint64 // because maxHeld were on their way, or there is nowhere to send them
}

func (f *Faults) check() error {
	for _, share := range []float64{f.LossUp, f.LossDown, f.Duplicate} {
		if !(share >= 0 && share <= 1) { // nor NaN
			return fmt.Errorf("loss %g up and %g down, duplicates %g: 0 to 1 are allowed", f.LossUp, f.LossDown, f.Duplicate)
		}
	}
	if f.Delay < 0 || f.Delay > time.Minute || f.Jitter < 0 || f.Jitter > time.Minute {
		return fmt.Errorf("delay %v, jitter %v: 0 to 1m are allowed", f.Delay, f.Jitter)
	}
	if f.Rate < 0 {
		return fmt.Errorf("rate %d: bits a second are wanted, 0 being any", f.Rate)
	}
	return nil
}

// up are the faults of packets from the clients.
func (f *Faults) up() oneWay {
	return oneWay{loss: f.LossUp, duplicate: f.Duplicate, delay: f.Delay, jitter: f.Jitter, rate: f.Rate, down: f.Down}
}

// back are the faults of packets to the clients.
func (f *Faults) back() oneWay {
	return oneWay{loss: f.LossDown, duplicate: f.Duplicate, delay: f.Delay, jitter: f.Jitter, down: f.Down}
}

type oneWay struct {
	loss, duplicate float64
	delay, jitter   time.Duration
	rate            int
	down            bool
}
