// The talk by voice: who speaks, what is understood, how loud it is, and the agent's voice itself.
import { $, setText, setTone } from './dom.js';
import { bitrateText, durationText, shareText } from './figures.js';
import { Meters, loudnessWords, meterShare } from './sound.js';
import { Speech, heardWords, sideWords } from './speech.js';

const METER_MS = 80;

/** Plays the agent's voice and shows both sides. Dispatches `held` when the browser lets or does not let it play: `held` says which. */
export class VoiceView extends EventTarget {
  constructor(publisher) {
    super();
    this.publisher = publisher;
    this.speech = new Speech();
    this.meters = new Meters();
    this.audio = $('agent-audio');
    this.held = false;
    this.timer = 0;
    $('volume').addEventListener('input', () => { this.audio.volume = Number($('volume').value) / 100; });
    $('mute-voice').addEventListener('click', () => { this.audio.muted = !this.audio.muted; this.draw(); });
    $('mute-mic').addEventListener('click', () => publisher.muteMicrophone(publisher.microphone?.enabled === true));
  }

  /** Another session, or a break: what was said meanwhile is not known. */
  reset() {
    this.speech.reset();
    this.draw();
  }

  /** Takes a message about speech. */
  apply(message) {
    if (this.speech.apply(message, performance.now())) this.draw();
  }

  /** Follows the call: its microphone and the agent's voice come and go. */
  follow() {
    const { stream, voice, active } = this.publisher;
    if (this.audio.srcObject !== voice) {
      this.audio.srcObject = voice;
      this.#hold(false);
      if (voice) this.play();
    }
    this.meters.set('microphone', active ? stream : null);
    this.meters.set('voice', voice);
    const running = Boolean(active && (voice || this.publisher.microphone));
    if (running && !this.timer) this.timer = setInterval(() => this.#measure(), METER_MS);
    if (!running && this.timer) {
      clearInterval(this.timer);
      this.timer = 0;
      this.#measure();
    }
    this.draw();
  }

  /** Begins to play; browsers refuse it where nobody has pressed anything yet. */
  async play() {
    try {
      await this.audio.play();
      this.#hold(false);
    } catch (error) {
      if (error.name === 'NotAllowedError') this.#hold(true); // an AbortError is a newer stream that took its place
    }
  }

  draw() {
    const { publisher, audio } = this, { microphone, voice } = publisher;
    side('caller', this.speech.caller);
    side('speaker', this.speech.agent);
    const ended = microphone?.readyState === 'ended', off = microphone && !microphone.enabled;
    setText($('mic-state'), !microphone ? 'microphone not sent' : ended ? 'microphone gone' : off ? 'muted' : 'microphone on');
    $('mute-mic').hidden = !microphone || ended;
    label($('mute-mic'), off ? 'Unmute' : 'Mute', 'the microphone');
    setText($('voice-state'), !voice ? 'not heard here' : this.held ? 'held back by the browser' : audio.muted ? 'muted here' : 'heard here');
    $('voice-controls').hidden = !voice;
    label($('mute-voice'), audio.muted ? 'Unmute' : 'Mute', 'the agent’s voice');
    const { last } = this.speech;
    setText($('heard'), heardWords(last));
    setTone($('heard'), last?.interrupted ? 'warn' : '');
    $('made').hidden = !(last?.interrupted && last.made);
    setText($('made-text'), last?.made ?? '');
  }

  /** Writes what the browser measured of the sound. */
  drawFigures() {
    const s = this.publisher.sound;
    const sent = s?.sent?.bitrate !== undefined && `sent ${bitrateText(s.sent.bitrate)}`;
    const heard = s?.heard && `heard: loss ${shareText(s.heard.lossShare)}, buffer ${durationText(s.heard.bufferMs)}`;
    setText($('sound-figures'), [s?.codec, sent, heard].filter(Boolean).join(' · '));
  }

  #hold(held) {
    if (this.held === held) return;
    this.held = held;
    this.draw();
    this.dispatchEvent(new Event('held'));
  }

  #measure() {
    for (const [id, name, words] of [['mic-level', 'microphone', 'Your microphone'], ['voice-level', 'voice', 'The agent’s voice']]) {
      const db = this.meters.level(name), meter = $(id);
      meter.value = meterShare(db);
      meter.title = `${words}: ${loudnessWords(db)}`;
    }
  }
}

// Two buttons are called the same: what they are for is for those who do not see where they stand.
function label(button, word, what) {
  setText(button, word);
  button.setAttribute('aria-label', `${word} ${what}`);
}

function side(id, state) {
  const { word, line, settled } = sideWords(state);
  setTone($(id), state.speaking ? 'good' : 'off');
  setText($(`${id}-word`), word);
  setText($(`${id}-line`), line);
  $(`${id}-line`).classList.toggle('partial', !settled);
}
