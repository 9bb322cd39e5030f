package vad

import (
	_ "embed" // the weights
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

//go:embed silero/silero_vad_16k_op15.onnx
var weights []byte

// Model is the weights of the detector, for any number of detectors at a time. It does not change.
type Model struct {
	spectrum *spectrum
	convs    [4]conv
	lstm     lstm
	last     []float32
	lastBias float32
}

// Load reads the weights that come with the program. Once for a process is enough.
func Load() (*Model, error) { return build(weights) }

func build(file []byte) (*Model, error) {
	found := tensors{}
	if err := found.read(file, modelMessage); err != nil {
		return nil, fmt.Errorf("vad: the file of weights: %w", err)
	}
	var failed error
	tensor := func(name string, count int) []float32 {
		raw := found["model."+name]
		if len(raw) != 4*count {
			failed = errors.Join(failed, fmt.Errorf("vad: tensor %s has %d bytes, want %d", name, len(raw), 4*count))
			raw = make([]byte, 4*count)
		}
		values := make([]float32, count)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return values
	}

	m := &Model{spectrum: newSpectrum()}
	for i, c := range [4]conv{{in: bins, out: 128, stride: 1}, {in: 128, out: 64, stride: 2}, {in: 64, out: 64, stride: 2}, {in: 64, out: 128, stride: 1}} {
		name := fmt.Sprintf("encoder.%d.reparam_conv", i)
		c.weight = tapsFirst(tensor(name+".weight", c.out*c.in*taps), c.in)
		c.bias = tensor(name+".bias", c.out)
		m.convs[i] = c
	}
	input, hidden := tensor("decoder.rnn.weight_ih", 4*units*units), tensor("decoder.rnn.weight_hh", 4*units*units)
	for row := range 4 * units {
		m.lstm.weight = append(m.lstm.weight, input[row*units:][:units]...)
		m.lstm.weight = append(m.lstm.weight, hidden[row*units:][:units]...)
	}
	m.lstm.bias = tensor("decoder.rnn.bias_ih", 4*units)
	for i, b := range tensor("decoder.rnn.bias_hh", 4*units) {
		m.lstm.bias[i] += b
	}
	m.last = tensor("decoder.decoder.2.weight", units)
	m.lastBias = tensor("decoder.decoder.2.bias", 1)[0]
	return m, failed
}

// tapsFirst turns [out][in][tap] into [out][tap][in].
func tapsFirst(w []float32, in int) []float32 {
	turned := make([]float32, len(w))
	for o := range len(w) / (taps * in) {
		for i := range in {
			for tap := range taps {
				turned[(o*taps+tap)*in+i] = w[(o*in+i)*taps+tap]
			}
		}
	}
	return turned
}

// tensors are the initializers of an ONNX file (a protobuf message) by name: their numbers, little endian.
type tensors map[string][]byte

// The messages on the way to an initializer, and the numbers of their fields that matter here.
const (
	modelMessage  = iota // 7: graph
	graphMessage         // 5: initializer
	tensorMessage        // 8: name, 9: raw_data
)

func (t tensors) read(message []byte, kind int) error {
	var name string
	var raw []byte
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errors.New("is cut off")
		}
		message = message[n:]
		size := uint64(0)
		switch tag & 7 {
		case 0: // a number
			_, n := binary.Uvarint(message)
			size = uint64(max(n, 0))
		case 1:
			size = 8
		case 2: // bytes
			var n int
			size, n = binary.Uvarint(message)
			message = message[max(n, 0):]
		case 5:
			size = 4
		}
		if size == 0 && tag&7 != 2 || size > uint64(len(message)) {
			return errors.New("is cut off or no ONNX file")
		}
		field := message[:size]
		message = message[size:]
		switch {
		case kind == modelMessage && tag == 7<<3|2, kind == graphMessage && tag == 5<<3|2:
			if err := t.read(field, kind+1); err != nil {
				return err
			}
		case kind == tensorMessage && tag == 8<<3|2:
			name = string(field)
		case kind == tensorMessage && tag == 9<<3|2:
			raw = field
		}
	}
	if kind == tensorMessage {
		t[name] = raw
	}
	return nil
}
