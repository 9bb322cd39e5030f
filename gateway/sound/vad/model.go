package vad

import (
	_ "embed" // the weights
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"sightline/gateway/sound/internal/vadc"
)

//go:embed silero/silero_vad_16k_op15.onnx
var weights []byte

// Model is the weights of the detector, for any number of detectors at a time. It does not change.
type Model struct{ net *vadc.Net }

// Load reads the weights that come with the program. Once for a process is enough.
func Load() (*Model, error) { return build(weights) }

func build(file []byte) (*Model, error) {
	w, err := read(file)
	if err != nil {
		return nil, err
	}
	net, err := vadc.New(w)
	if err != nil {
		return nil, fmt.Errorf("vad: %w", err)
	}
	return &Model{net: net}, nil
}

// read finds the weights in a file.
func read(file []byte) (w vadc.Weights, failed error) {
	found := tensors{}
	if err := found.read(file, modelMessage); err != nil {
		return w, fmt.Errorf("vad: the file of weights: %w", err)
	}
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

	w.Convs = vadc.Shapes()
	for i := range w.Convs {
		c, name := &w.Convs[i], fmt.Sprintf("encoder.%d.reparam_conv", i)
		c.Weight, c.Bias = tensor(name+".weight", c.Out*c.In*vadc.Taps), tensor(name+".bias", c.Out)
	}
	const units = vadc.Units
	w.Input, w.Hidden = tensor("decoder.rnn.weight_ih", 4*units*units), tensor("decoder.rnn.weight_hh", 4*units*units)
	w.InputBias, w.HiddenBias = tensor("decoder.rnn.bias_ih", 4*units), tensor("decoder.rnn.bias_hh", 4*units)
	w.Last = tensor("decoder.decoder.2.weight", units)
	w.LastBias = tensor("decoder.decoder.2.bias", 1)[0]
	return w, failed
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
