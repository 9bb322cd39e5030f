package rtc

import (
	"context"
	"errors"
	"time"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/problem"
)

var errGone = problem.New(problem.NotFound, "the publisher is gone")

// lockSignal makes trickles and restarts go one at a time.
func (p *Peer) lockSignal(ctx context.Context) (unlock func(), err error) {
	select {
	case p.signal <- struct{}{}:
		select {
		case <-p.closing: // both were ready
			<-p.signal
			return nil, errGone
		default:
		}
		return func() { <-p.signal }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closing:
		return nil, errGone
	}
}

// answer gives the offer to Pion and waits for all local candidates.
func (p *Peer) answer(ctx context.Context, plan *offerPlan, offer string) (*answerPlan, error) {
	unlock, err := p.lockSignal(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return p.negotiate(ctx, plan, offer)
}

// negotiate does offer → answer; the caller holds signal.
func (p *Peer) negotiate(ctx context.Context, plan *offerPlan, offer string) (*answerPlan, error) {
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		if errors.Is(err, webrtc.ErrConnectionClosed) {
			return nil, errGone
		}
		return nil, problem.New(problem.InvalidArgument, "the offer cannot be used: %v", err)
	}
	p.layers.learn(p.pc)
	if err := p.speak(plan.listener); err != nil {
		return nil, problem.New(problem.Internal, "the gateway could not open its voice").WithCause(err)
	}
	local, err := p.pc.CreateAnswer(&webrtc.AnswerOptions{OfferAnswerOptions: webrtc.OfferAnswerOptions{ICETricklingSupported: true}})
	if err != nil {
		return nil, problem.New(problem.NotNegotiable, "the offer cannot be answered: %v", err)
	}
	gathered := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(local); err != nil {
		return nil, problem.New(problem.Internal, "the gateway could not use its own answer").WithCause(err)
	}
	limit := time.NewTimer(p.engine.cfg.GatherTimeout)
	defer limit.Stop()
	select {
	case <-gathered:
	case <-limit.C: // answer with what there is
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closing:
		return nil, errGone
	}
	answer, err := finishAnswer(p.pc.LocalDescription().SDP, plan, p.engine.cfg.PublicIPs, p.engine.cfg.AllowPrivate, p.engine.cfg.MaxVideoBPS)
	if err != nil {
		var known *problem.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, problem.New(problem.Internal, "the gateway could not write its answer").WithCause(err)
	}
	p.mu.Lock()
	p.sig = signalling{plan: plan, local: answer}
	p.mu.Unlock()
	return answer, nil
}

// ICE gives the remote ICE credentials in force.
func (p *Peer) ICE() (ufrag, pwd string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sig.plan.ufrag, p.sig.plan.pwd
}

// Trickle adds the candidates of an application/trickle-ice-sdpfrag body (RFC 8840). Candidates that policy or
// bounds leave out are no error. A fragment of another ICE generation is precondition_failed.
func (p *Peer) Trickle(ctx context.Context, frag string) error {
	f, err := parseFragment(frag)
	if err != nil {
		return err
	}
	unlock, err := p.lockSignal(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p.mu.Lock()
	ufrag, room := p.sig.plan.ufrag, maxTrickledTotal-p.sig.trickled
	p.mu.Unlock()
	if f.ufrag != "" && f.ufrag != ufrag {
		return problem.New(problem.PreconditionFailed, "the fragment belongs to another ICE generation: its a=ice-ufrag is not the one in force").WithField("ice-ufrag")
	}
	clean := cleanCandidates(f.candidates, p.engine.policy, ufrag, min(maxCandidates, room))
	for _, c := range clean {
		if err := p.pc.AddICECandidate(webrtc.ICECandidateInit{Candidate: c}); err != nil {
			select {
			case <-p.closing:
				return errGone
			default:
			}
			return problem.New(problem.InvalidArgument, "a candidate cannot be used: %v", err).WithField("candidate")
		}
	}
	p.mu.Lock()
	p.sig.trickled += len(clean)
	p.mu.Unlock()
	return nil
}

// Restart restarts ICE with the credentials and candidates of frag and answers with ours, in the same form. What can
// be wrong with frag is found before anything changes: then the peer goes on as it was.
func (p *Peer) Restart(ctx context.Context, frag string) (answer string, err error) {
	f, err := parseFragment(frag)
	if err != nil {
		return "", err
	}
	if err := validICE("fragment", f.ufrag, f.pwd); err != nil {
		return "", err
	}
	unlock, err := p.lockSignal(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	p.mu.Lock()
	plan := p.sig.plan
	p.mu.Unlock()
	if f.ufrag == plan.ufrag {
		return "", problem.New(problem.InvalidArgument, "an ICE restart needs a new a=ice-ufrag; this is the one in force").WithField("ice-ufrag")
	}
	next, err := plan.restarted(f, p.engine.policy)
	if err != nil {
		return "", problem.New(problem.Internal, "the gateway could not restart ICE").WithCause(err)
	}
	text, err := next.sdp()
	if err != nil {
		return "", err
	}
	// From here on ctx must not stop it half way: the old generation is given up by the first step.
	local, err := p.negotiate(context.WithoutCancel(ctx), next, text)
	if err != nil {
		return "", err
	}
	return renderFragment(local.media, local.mid, local.ufrag, local.pwd, local.candidates), nil
}
