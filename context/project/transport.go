package project

import chatctx "sightline/context"

// TransportLosses says what chatctx.ToContextMessages leaves out of items, which begin where no call joins what was before them.
func TransportLosses(items chatctx.Items) []Loss {
	var losses []Loss
	lose := func(kind, id, detail string) { losses = append(losses, Loss{Kind: kind, ItemID: id, Detail: detail}) }
	const noPlace = "the transport format has no place for it"
	joins := false // the next call has a message to join
	for _, item := range items {
		id := item.ItemID()
		switch it := item.(type) {
		case *chatctx.Message:
			joins = it.Role == chatctx.RoleAssistant
			if it.TextGenerated != "" {
				lose(LostUnheard, id, noPlace)
			}
			for _, img := range it.Content.Images() {
				if img.Source != "" || !img.CapturedAt.IsZero() {
					lose(ChangedImage, id, "the transport format has no place for where and when an image was taken")
				}
			}
		case *chatctx.FunctionCall:
			if joins && id != "" {
				lose(ChangedMerged, id, "the call is part of the message before it and has no id of its own")
			}
			joins = true
		case *chatctx.FunctionCallOutput:
			joins = false
			if it.IsError {
				lose(LostErrorFlag, id, "the output was an error")
			}
		case *chatctx.Summary:
			joins = false
			lose(string(it.Kind()), id, noPlace+": the assistant says it")
		default:
			lose(string(it.Kind()), id, noPlace)
		}
	}
	return losses
}
