package jetstream

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// listLogs asks the streams which subjects they have.
func (s *Store) listLogs(ctx context.Context) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	names := map[string]struct{}{}
	for p := range s.partitions {
		for _, stream := range []string{contextStream(p), blobStream(p)} {
			if err := s.listSubjects(ctx, stream, names); err != nil {
				return nil, err
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// listSubjects adds the sessions that a stream has something of; the server gives up to 100,000 subjects at once.
func (s *Store) listSubjects(ctx context.Context, stream string, names map[string]struct{}) error {
	for offset := 0; ; {
		var info struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		err := s.persist(ctx, func(ctx context.Context, r *running) error {
			return r.api(ctx, "STREAM.INFO."+stream, map[string]any{"subjects_filter": ">", "offset": offset}, &info)
		})
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects { // ctx.<p>.<session> or blob.<p>.<session>.<sum>
			if parts := strings.Split(subject, "."); len(parts) >= 3 {
				names[parts[2]] = struct{}{}
			}
		}
		if offset += len(info.State.Subjects); offset >= info.Total || len(info.State.Subjects) == 0 {
			return nil
		}
	}
}
