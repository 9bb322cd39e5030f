package sound

import "time"

// Counts says what became of the packets of an Ingress, and how the sound that it gave was made. Lost: never came, or too
// late to be of use. Dropped: thrown away by us.
type Counts struct {
	Packets    uint64 // that came in
	Played     uint64
	Lost       uint64 // given up when their time had come
	Late       uint64 // of the lost, those that came after all
	Duplicates uint64
	Dropped    uint64 // because more sound waited than may (400 ms), as after an outage
	Malformed  uint64 // not Opus
	Stray      uint64 // single packets of another SSRC, or with a sequence number far away
	Foreign    uint64 // of another payload type
	Restarts   uint64 // the stream went on with another SSRC or other sequence numbers
	Unread     uint64 // frames of 20 ms left out because Run could not keep up

	Repaired  time.Duration // sound taken from the packet behind a lost one (FEC)
	Concealed time.Duration // sound made up by the decoder
	Silence   time.Duration // where nothing came: pauses of the sender, and what was not concealed
	Shortened time.Duration // taken out to give delay back
}

// Delay says how the sound is held.
type Delay struct {
	Target time.Duration // how long after the fastest way sound is to be given
	Now    time.Duration // how long it is
}
