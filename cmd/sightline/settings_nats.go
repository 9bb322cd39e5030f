package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"sightline/context/jetstream"
)

// natsSettings are the flags of a cluster that keeps the conversations in place of the data directory.
type natsSettings struct {
	url, creds, ca, cert, key string
	replicas                  int
	unsafeSync                bool
	nodeURL                   string
	lease                     time.Duration
}

func (n *natsSettings) flags(f *flag.FlagSet) {
	f.StringVar(&n.url, "nats-url", "", "`addresses` of a NATS cluster with JetStream that keeps the conversations in place of --data-dir: nats://host:4222,…")
	f.StringVar(&n.creds, "nats-creds", "", "`file` with the NATS user's JWT and seed")
	f.StringVar(&n.ca, "nats-ca", "", "`file` with the certificates that the NATS servers' are signed by (PEM)")
	f.StringVar(&n.cert, "nats-cert", "", "`file` with our certificate for the NATS servers (PEM); needs --nats-key")
	f.StringVar(&n.key, "nats-key", "", "`file` with its key (PEM)")
	f.IntVar(&n.replicas, "nats-replicas", jetstream.DefaultReplicas, "copies of each conversation in the cluster: 1, 3 or 5")
	f.DurationVar(&n.lease, "nats-lease", jetstream.DefaultLease, "how long a gateway that is silent counts as alive; the same for all gateways of a cluster")
	f.BoolVar(&n.unsafeSync, "nats-unsafe-sync", false, "use NATS servers that are not tagged sync:always: if they lose power, what was acknowledged may be lost")
}

// nodeFlags are for a gateway only.
func (n *natsSettings) nodeFlags(f *flag.FlagSet) {
	f.StringVar(&n.nodeURL, "node-url", "", "`URL` at which agents reach this one of several gateways; told to those that have to leave another (default: http:// and --listen, when that is one address)")
}

// check refuses what does not go together.
func (n *natsSettings) check(dataDir string) error {
	if n.url == "" {
		if n.creds != "" || n.ca != "" || n.cert != "" || n.key != "" || n.unsafeSync {
			return errors.New("the --nats flags need --nats-url")
		}
		return nil
	}
	if dataDir != "" {
		return fmt.Errorf("--data-dir %s and --nats-url: conversations are kept in one of them", dataDir)
	}
	if (n.cert == "") != (n.key == "") {
		return errors.New("--nats-cert and --nats-key belong together")
	}
	if n.lease < time.Second {
		return fmt.Errorf("--nats-lease %v: allowed is 1s and longer", n.lease)
	}
	if n.replicas != 1 && n.replicas != 3 && n.replicas != 5 {
		return fmt.Errorf("--nats-replicas %d: allowed are 1, 3 and 5", n.replicas)
	}
	return nil
}

func (n *natsSettings) external() jetstream.External {
	if n.url == "" {
		return jetstream.External{}
	}
	return jetstream.External{URL: n.url, Creds: n.creds, CA: n.ca, Cert: n.cert, Key: n.key, Replicas: n.replicas, Lease: n.lease}
}
