package local

import (
	"context"
	"log/slog"
	"os"
	"os/exec"

	"sightline/switcher/cascade"
)

// Config of all engines; the zero value is what `sightline serve` offers without a key.
type Config struct {
	Recognizer RecognizerConfig
	Voice      VoiceConfig
	Reader     ReaderConfig
	Log        *slog.Logger // for those that have none of their own
}

// Engines are the parts of a cascade that needs no network.
type Engines struct {
	Recognizer *Recognizer
	Model      Model
	Voice      *Voice
	Reader     *Reader // for Tools.Read
}

// New makes the engines; nothing is started.
func New(cfg Config) (*Engines, error) {
	if cfg.Recognizer.Log == nil {
		cfg.Recognizer.Log = cfg.Log
	}
	voice, err := NewVoice(cfg.Voice)
	if err != nil {
		return nil, err
	}
	return &Engines{Recognizer: NewRecognizer(cfg.Recognizer), Voice: voice, Reader: NewReader(cfg.Reader)}, nil
}

// Run keeps processes warm until ctx ends; see Recognizer.Run.
func (e *Engines) Run(ctx context.Context) error { return e.Recognizer.Run(ctx) }

// Cascade gives the configuration of a leg with these engines.
func (e *Engines) Cascade() cascade.Config {
	return cascade.Config{Recognizers: []cascade.Recognizer{e.Recognizer}, Models: []cascade.Model{e.Model}, Voices: []cascade.Voice{e.Voice}}
}

// Missing is an engine that is not installed.
type Missing struct {
	Engine   string // pocketsphinx, flite or tesseract
	Sentence string // what does not work, and what to install
}

// Check tells which engines are missing. It looks for files and starts nothing.
func Check() []Missing { return check(exec.LookPath, os.Stat) }

func check(look func(string) (string, error), stat func(string) (os.FileInfo, error)) []Missing {
	var all []Missing
	file := func(name string) bool { _, err := stat(name); return err == nil }
	program := func(name string) bool { _, err := look(name); return err == nil }
	miss := func(engine, what, packages string) {
		all = append(all, Missing{engine, what + " Install the Debian packages " + packages + " (scripts/install engines)."})
	}
	if !program("pocketsphinx_continuous") || !file(modelFolder+"/en-us/mdef") || !file(modelFolder+"/en-us.lm.bin") {
		miss("pocketsphinx", "The offline demo pipelines cannot hear: pocketsphinx or its English model is missing.", "pocketsphinx and pocketsphinx-en-us")
	}
	if !program("flite") {
		miss("flite", "The offline demo pipelines cannot speak: flite is missing.", "flite")
	}
	if !program("tesseract") {
		miss("tesseract", "The demo tool read_text cannot read: tesseract is missing.", "tesseract-ocr and tesseract-ocr-eng")
	}
	return all
}
