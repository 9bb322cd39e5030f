// What the projectors of context/project and the engines of switcher/openai send, and what goes over a socket of the OpenAI Realtime dialect (switcher/realtime) or of Gemini's Live API (switcher/gemini), in the
// official packages' own types: one exported type is one JSON Schema.
import type { ChatCompletionCreateParamsStreaming, ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { SpeechCreateParams } from 'openai/resources/audio/speech';
import type { TranscriptionCreateParams } from 'openai/resources/audio/transcriptions';
import type { ResponseInputItem } from 'openai/resources/responses/responses';
import type { ConversationItemCreateEvent, RealtimeClientEvent, RealtimeServerEvent } from 'openai/resources/realtime/realtime';
import type { MessageParam, TextBlockParam } from '@anthropic-ai/sdk/resources/messages';
import type { Content, LiveClientMessage, LiveServerMessage } from '@google/genai';

export type OpenAIChat = ChatCompletionMessageParam[];
export type OpenAIResponses = ResponseInputItem[];
export type OpenAIRealtime = ConversationItemCreateEvent[];
export type Anthropic = { system?: string | TextBlockParam[]; messages: MessageParam[] };
export type Gemini = { systemInstruction?: Content; contents: Content[] };
export type RealtimeClient = RealtimeClientEvent;
export type RealtimeServer = RealtimeServerEvent;
export type GeminiLiveClient = LiveClientMessage;
// Without the SDK's own getters, which are not on the wire.
export type GeminiLiveServer = Pick<LiveServerMessage, 'setupComplete' | 'serverContent' | 'toolCall' | 'toolCallCancellation' | 'usageMetadata' | 'goAway' | 'sessionResumptionUpdate' | 'voiceActivity'>;

// Requests of switcher/openai; a transcription is a form, whose fields besides the file are checked.
export type ChatCompletion = ChatCompletionCreateParamsStreaming;
export type Speech = SpeechCreateParams;
export type Transcription = Omit<TranscriptionCreateParams, 'file'>;
