package main

import (
	"fmt"
	"log/slog"
	"strings"

	"sightline/gateway"
	"sightline/switcher/cascade"
	"sightline/switcher/openai"
)

// engineSettings say where one engine is; with commas, where it and those are that are asked when it fails, in this order.
type engineSettings struct {
	url, model, key, profile string
}

// each gives the engines one by one. Models, keys and profiles are as many as URLs, or one for all.
func (e engineSettings) each(name string) ([]engineSettings, error) {
	if e.url == "" {
		return nil, nil
	}
	urls := strings.Split(e.url, ",")
	all := make([]engineSettings, len(urls))
	for i, url := range urls {
		if all[i].url = strings.TrimSpace(url); all[i].url == "" {
			return nil, fmt.Errorf("--%s-url %q: one of the addresses between its commas is empty", name, e.url)
		}
	}
	for _, list := range []struct {
		flag, value string
		to          func(*engineSettings) *string
	}{
		{"model", e.model, func(e *engineSettings) *string { return &e.model }},
		{"key", e.key, func(e *engineSettings) *string { return &e.key }},
		{"profile", e.profile, func(e *engineSettings) *string { return &e.profile }},
	} {
		values := strings.Split(list.value, ",")
		if len(values) != 1 && len(values) != len(urls) {
			return nil, fmt.Errorf("--%s-%s has %d values for %d addresses: give one for each, or one for all", name, list.flag, len(values), len(urls))
		}
		for i := range all {
			*list.to(&all[i]) = strings.TrimSpace(values[min(i, len(values)-1)])
		}
	}
	for i := range all {
		if all[i].model == "" {
			return nil, fmt.Errorf("--%s-url needs --%s-model: the name of the model at that server", name, name)
		}
		if err := fromFile(&all[i].key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e engineSettings) client(log *slog.Logger) (*openai.Client, error) {
	profile, err := openai.ProfileOf(e.profile)
	if err != nil {
		return nil, err
	}
	return openai.New(openai.Config{BaseURL: e.url, Key: e.key, Profile: profile, Log: log})
}

// engines are the parts that cascades are made of, best first.
type engines struct {
	recognizers []cascade.Recognizer
	voices      []cascade.Voice
}

func (s *pipelineSettings) hostedEngines(log *slog.Logger) (e engines, err error) {
	ears, err := s.stt.each("stt")
	if err != nil {
		return e, err
	}
	for _, at := range ears {
		client, err := at.client(log)
		if err != nil {
			return e, fmt.Errorf("--stt-url: %w", err)
		}
		r, err := client.Recognizer(openai.RecognizerConfig{Model: at.model})
		if err != nil {
			return e, fmt.Errorf("--stt-model: %w", err)
		}
		e.recognizers = append(e.recognizers, r)
	}
	voices, err := s.tts.each("tts")
	if err != nil {
		return e, err
	}
	for _, at := range voices {
		client, err := at.client(log)
		if err != nil {
			return e, fmt.Errorf("--tts-url: %w", err)
		}
		v, err := client.Voice(openai.VoiceConfig{Model: at.model, Voice: s.ttsVoice})
		if err != nil {
			return e, fmt.Errorf("--tts-model: %w", err)
		}
		e.voices = append(e.voices, v)
	}
	return e, nil
}

// hostedModels are the models of the pipeline "hosted"; none where there is none.
func (s *pipelineSettings) hostedModels(log *slog.Logger) (models []cascade.Model, err error) {
	all, err := s.llm.each("llm")
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		client, err := at.client(log)
		if err != nil {
			return nil, fmt.Errorf("--llm-url: %w", err)
		}
		model, err := client.Model(openai.ModelConfig{Model: at.model, Downscale: gateway.Downscale(s.stills)})
		if err != nil {
			return nil, fmt.Errorf("--llm-model: %w", err)
		}
		models = append(models, model)
	}
	return models, nil
}
