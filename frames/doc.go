// Package frames turns the RTP packets of one video track into JPEG images for whoever wants them, at the rate and size each one wants.
// It knows no peer connection, no socket and no session; it sends nothing.
//
// The way of a video frame, one Track each:
//
//	Push ─► sequencer ─► assembler ─► queue (8 frames) ─► decoder ─► sampler ─► encoder ─► Latest[*Image] of each Subscription
//	      duplicates,    order, gaps,  full: back to a      │          who is     one encode for each       └► requests that wait
//	      loss           key frames    key frame            │          due        set of options
//	                                                        └ damaged: back to a key frame
//
// # Codecs
//
// VP8 and VP9 (libvpx), H264 (openh264), AV1 (dav1d). What a codec is to the assembler is its depacketizer: parse looks at one packet, add and
// finish put a frame together; order, gaps, bounds and the chain are the assembler's alone. VP8 and VP9 say where a frame starts; of H264 and
// AV1 one starts where the last one ended, or behind a gap with a packet that begins a key frame. A key frame is an IDR with its parameter
// sets (H264; those that came earlier are put before it), a frame header of that type with its sequence header (AV1), a header of that type
// (VP8, VP9). Headers are read in Go before any decoder sees a frame: other formats than 4:2:0 with 8 bits and pictures over the bounds are
// refused.
//
// # Layers
//
// Of what is sent several times in different sizes, one is decoded: the smallest whose longer side is at least that of the largest image
// wanted, else the largest. The layers of a simulcast are streams; each is a Layer with an assembler of its own, of which at most two are
// awake: the one in use and, until its key frame is there, the next. Layers in space (SVC) are in one stream; the assembler leaves out what is
// above the wanted one and makes the rest one frame. layers_choose.go and layers_spatial.go decide, both pure.
//
// # Time
//
// An Image says when its picture was captured, what that is known by and how far off it may be. captureclock.go has the formula: arrivals,
// sender reports (Layer.Report) and abs-capture-time each know more than the one before, and what they say is held between the arrival of the
// quickest packet and two seconds before it. Time goes forward: a better clock is caught up with, not jumped back to.
//
// # Scenes
//
// A picture that somebody compares is reduced once to the mean luma of 64×36 cells (scene.go). Subscriptions with OnChange get what differs from
// the last image they were given; a source whose pictures keep coming and have not differed for 15 s is told as frozen, unless it shows a
// screen. Subscription.Speech changes a rate with the caller's speech.
//
// # Decode policies
//
// policy.go decides what is decoded, from what is wanted and what the sender does: a pure function (decide) and its memory (chooser), beside
// pure judges of how the sender answers requests for key frames (answers), of how coarse those are (catchUp by sizes, settling by pixels)
// and of layers in time. admission lets through, frame by frame, what the decision takes and the decoder can have (G10). Under keyframe,
// wishes.go merges who is due into one schedule, and a decoder is the Budget's, lent for one key frame. docs/frames.md tells the rest.
//
// # Goroutines
//
// Push runs in the caller's. Run starts two, which end with it: the worker owns every byte of C memory and decodes and encodes under the
// process-wide Budget; the control loop lets time pass, asks for key frames and tells the state. Nothing else is started.
//
// # Buffers
//
// A packet belongs to the Track once it is pushed. Its payload is copied into a frame's buffer as soon as everything before it is there, and
// that buffer goes round: assembler, queue, worker, assembler. A Picture is the decoder's memory, good until its next frame; nobody but the
// worker sees it. An Image is immutable and shared.
//
// # Guarantees
//
// Each has tests that carry its number.
//
//   - G9: the newest image wins. Who does not take his images finds the newest one and the number of those it displaced; he delays neither
//     the media path nor anybody else. Every image says when it was captured and when its frame had arrived. Subscribers with the same
//     options share one encoding, and one *Image.
//   - G10: no image comes from a broken chain. After a lost packet, a frame thrown away, a decoder's error or its corrupted flag nothing is
//     decoded before the next whole key frame, which is asked for. That goes for each layer alone: another one begins with a whole key frame
//     of its own, and what is certainly lost above the layer in use, or is certainly padding, breaks nothing.
//   - G12: what arrives is bounded before it costs anything: packets waiting (1024, 4 MiB), a frame (2048 packets, 4 MiB), the queue (8 frames,
//     8 MiB), a picture (4096 a side, 4096×2176 pixels, checked before any decoder sees the frame), requests waiting (64), images kept (4).
//   - G13: Run returns with no goroutine and no C memory left. A track nobody watches holds no C memory, assembles and decodes nothing.
//
// Superseded (displaced by something newer), dropped (thrown away by us, by cause) and lost (never arrived) are counted apart.
package frames
