// Package project turns a conversation into what each model provider's API accepts, by pure functions, and says what a format could not hold; it sends nothing and fetches nothing.
//
// One function per format: OpenAIChat, OpenAIResponses, OpenAIRealtime, Anthropic, Gemini, Text, and Seed for the instructions
// of a realtime model. Each gives its output and a list of Loss: what was left out, moved, changed or made up, item by item.
// Items go in as they stand in the log, in any state; what comes out is never refused by the provider for its shape. Validate
// knows the providers' rules a second time, written without looking at the projectors, and says what would be refused and why.
//
// # Rules
//
// The same for every format, each with tests of its number (TestRule1… and the property tests, which hold them for random
// histories):
//
//  1. Every call is answered, directly after it. A call without an output gets {"status":"interrupted"}, or
//     {"status":"running"} when Options.Running names it.
//  2. An output without its call is left out.
//  3. A call_id occurs once: the first call wins, the last output wins.
//  4. An output stands next to its call even when somebody spoke in between; calls made in one go stay one go.
//  5. Nothing empty goes out: blank texts, empty messages and what was never heard are left out; a tool that said nothing gets
//     "(no output)".
//  6. The newest images stay, Options.KeepImages per source, each with a caption that says where it is from and when it was
//     taken; an older one, or one that the provider would refuse, becomes a line of text. Image bytes are looked up only when
//     they are sent, and encoded once.
//  7. A call is never parted from its output, whatever has to be cut.
//  8. Instructions are the system and developer messages in their order, one text at the front; a config_update's instructions
//     take the place of all before it. None is lost unreported. With Options.ForAgent, another agent's messages of that kind do
//     not instruct this one.
//  9. What a tool, a handoff or a summary says is never shown as the caller's words. Text of ours that has to stand among the
//     caller's is between ⟦ and ⟧; in everybody else's text these two become [ and ].
//  10. An interrupted message counts as it was heard; nothing marks it but in the seed.
//  11. A handoff is told at its place: to its receiver as taking over, with who, why and the summary. A pipeline_switch is
//     invisible.
//  12. Call ids, item ids and tool names keep to the provider's alphabet and length; the same id always becomes the same id, and
//     two ids never become one.
//  13. Arguments are a JSON object, whatever the model wrote: else they are wrapped as {"value": …} or {"text": "…"}.
//  14. Anthropic and Gemini: the first message is the user's, and so is the last; consecutive ones of one role are one
//     (Gemini's answers to calls stand alone).
//  15. Same input, same output, byte for byte.
//  16. Seed: bounded, and nothing in the record can end it, begin a line of it or pose as an instruction: each text is one JSON
//     string on a line that begins with our label.
package project
