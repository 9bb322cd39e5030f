package gateway_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/pion/webrtc/v4"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway"
)

// A program with its own signalling and its own PeerConnection gives its tracks to a session; agents then attach to
// /v1/agent?session=call-1 as to any other.
func Example_embed() {
	ctx := context.Background()
	server, err := gateway.New(gateway.Config{Store: chatctx.NewMemStore()})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Run(ctx)) }()
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:8080", server.Handler())) }()

	session, err := server.Session(ctx, "call-1")
	if err != nil {
		log.Fatal(err)
	}
	pc, err := webrtc.NewPeerConnection(webrtc.Configuration{}) // yours, with your signalling
	if err != nil {
		log.Fatal(err)
	}
	pc.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		if err := session.AddTrack(pc, track, receiver); err != nil {
			log.Print(err)
		}
	})
	// The program can look, too: one image no older than a second.
	image, err := session.Image(ctx, "camera", frames.DefaultRealtimeEncodeOptions(), time.Second, 3*time.Second)
	if err == nil {
		log.Print("a JPEG of ", len(image.Data), " bytes")
	}
}
