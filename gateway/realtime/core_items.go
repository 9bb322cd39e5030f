package realtime

import (
	"errors"
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// item is one of the conversation as the client knows it.
type item struct {
	dialect.Item
	answer bool          // a message that the leg has said
	sound  time.Duration // … how much of it was sent
	pieces []piece       // … which words end where in it
	logged bool          // the log has it
	client bool          // the client has put it in
}

// piece says which words of a message end where in its sound.
type piece struct {
	end  time.Duration
	text string
}

// conversation is what the client can name, oldest first.
type conversation struct {
	items []*item
	byID  map[string]*item
	later map[string]chatctx.Op // by item: what is to be done as soon as the log has it
	ours  map[string]bool       // on its way into the log
	// waiting are the user's messages that a sideband puts in: the session's leg answers to such at once, so they go into the log
	// when an answer is asked for.
	waiting []chatctx.Op
}

// own: the client has put the item in.
func (v *conversation) own(id string) bool {
	it := v.byID[id]
	return v.ours[id] || it != nil && it.client
}

// previous is the id of the item before one, nil for the first.
func (v *conversation) previous(id string) *string {
	i := slices.IndexFunc(v.items, func(it *item) bool { return it.ID == id })
	if i <= 0 {
		return nil
	}
	return &v.items[i-1].ID
}

// insert puts an item behind another, "" = at the end.
func (v *conversation) insert(it *item, after string) {
	at := len(v.items)
	if i := slices.IndexFunc(v.items, func(o *item) bool { return o.ID == after }); after != "" && i >= 0 {
		at = i + 1
	}
	v.items = slices.Insert(v.items, at, it)
	v.byID[it.ID] = it
	if len(v.items) > maxItems {
		delete(v.byID, v.items[0].ID)
		v.items = slices.Delete(v.items, 0, 1)
	}
}

func (v *conversation) remove(id string) {
	v.items = slices.DeleteFunc(v.items, func(it *item) bool { return it.ID == id })
	delete(v.byID, id)
}

// last is the id of the newest item, "" of none.
func (v *conversation) last() string {
	if len(v.items) == 0 {
		return ""
	}
	return v.items[len(v.items)-1].ID
}

// add puts an item in and tells the client; a whole one is done with it.
func (c *core) add(it *item, after string) {
	it.Object = "realtime.item"
	c.chat.insert(it, after)
	prev := c.chat.previous(it.ID)
	c.send(&dialect.ItemAdded{EventID: c.eventID(), PreviousItemID: prev, Item: it.Item})
	if it.Status == dialect.StatusCompleted {
		c.send(&dialect.ItemDone{EventID: c.eventID(), PreviousItemID: prev, Item: it.Item})
	}
}

// create takes an item of the client in: into the log, then into the conversation.
func (c *core) create(e *dialect.ItemCreate) {
	it, logged, f := c.newItem(e)
	if f != nil {
		c.refuse(e.EventID, f)
		return
	}
	it.client = true
	after := e.PreviousItemID
	if after == "root" {
		after = ""
	}
	if logged == nil { // the output of a call that waits for it: the session records it with the call
		c.add(it, after)
		return
	}
	op := chatctx.Op{ID: c.opID(), Kind: chatctx.OpAppend, Item: logged}
	if before := c.chat.byID[after]; before != nil && before.logged && after != c.chat.last() {
		op.After = after
	}
	if m, isMessage := logged.(*chatctx.Message); isMessage && m.Role == chatctx.RoleUser && c.cfg.watch {
		if len(c.chat.waiting) >= maxInput {
			c.refuse(e.EventID, faultf("invalid_value", "item", "%d messages wait for response.create, the bound", maxInput))
			return
		}
		c.chat.waiting = append(c.chat.waiting, op)
		c.add(it, after)
		return
	}
	c.chat.ours[it.ID] = true
	c.do(eAppend{op, func(_ chatctx.Ack, err error) {
		delete(c.chat.ours, it.ID)
		if err != nil {
			c.refuse(e.EventID, logFault(err))
			return
		}
		it.logged = true
		c.add(it, after)
	}})
}

// opID is the next of our operations on the log: their entries are known by it.
func (c *core) opID() string { return c.cfg.opPrefix + c.cfg.newID("op") }

// logFault is why the log refuses.
func logFault(err error) *fault {
	var e *chatctx.Error
	if errors.As(err, &e) {
		return &fault{string(e.Kind), e.Field, e.Detail}
	}
	return faultf("server_error", "", "the conversation cannot be written now")
}

// newItem makes an item of what the client sent; logged is what the log is to hold of it, nil for the output of an open call.
func (c *core) newItem(e *dialect.ItemCreate) (it *item, logged chatctx.Item, f *fault) {
	d := e.Item
	if d.ID == "" {
		d.ID = c.cfg.newID("item")
	}
	switch {
	case !chatctx.ValidID(d.ID):
		return nil, nil, faultf("invalid_value", "item.id", "item.id %.80q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", d.ID)
	case c.chat.byID[d.ID] != nil:
		return nil, nil, faultf("item_create_duplicate_item_id", "item.id", "there is an item %q already", d.ID)
	case e.PreviousItemID == "root" && len(c.chat.items) > 0:
		return nil, nil, faultf("unsupported_value", "previous_item_id", "previous_item_id root: the conversation has begun; name an item, or leave it out for the end")
	case e.PreviousItemID != "" && e.PreviousItemID != "root" && c.chat.byID[e.PreviousItemID] == nil:
		return nil, nil, faultf("invalid_item_id", "previous_item_id", "there is no item %.80q to put it after", e.PreviousItemID)
	}
	d.Status, d.Object = dialect.StatusCompleted, "realtime.item"
	switch d.Type {
	case dialect.ItemMessage:
		m, f := message(&d)
		if f == nil && d.Role == "system" { // another Sightline tells of a handoff or a summary
			if note, ok := project.ReadNote(d.ID, m.Content.Text()); ok {
				return &item{Item: d}, note, nil
			}
		}
		return &item{Item: d}, m, f
	case dialect.ItemCall:
		if d.CallID == "" || len(d.CallID) > 128 || !toolName.MatchString(d.Name) {
			return nil, nil, faultf("invalid_value", "item.call_id", "a function_call has a call_id of 1 to 128 bytes and a name of 1 to 64 of A-Z, a-z, 0-9, _ and -")
		}
		c.tools.past(d.CallID, d.Name)
		return &item{Item: d}, &chatctx.FunctionCall{ID: d.ID, CallID: d.CallID, Name: d.Name, Arguments: d.Arguments}, nil
	case dialect.ItemCallOutput:
		call, waits := c.tools.known[d.CallID], false
		if call == nil {
			return nil, nil, faultf("invalid_item_call_id", "item.call_id", "there is no call %.80q in the conversation", d.CallID)
		}
		if waits, f = call.output(d.Output); f != nil || waits {
			return &item{Item: d}, nil, f
		}
		return &item{Item: d}, &chatctx.FunctionCallOutput{ID: d.ID, CallID: d.CallID, Name: call.name, Output: d.Output}, nil
	}
	return nil, nil, faultf("invalid_value", "item.type", "item.type %.40q: allowed are message, function_call and function_call_output", d.Type)
}

// message makes a message for the log. The bytes of images go there: the client's view of the item is without them.
func message(d *dialect.Item) (*chatctx.Message, *fault) {
	m := &chatctx.Message{ID: d.ID, Role: chatctx.Role(d.Role)}
	allowed := map[string]string{"user": "input_text, input_image and input_audio with a transcript", "system": "input_text", "assistant": "output_text"}[d.Role]
	if allowed == "" {
		return nil, faultf("invalid_value", "item.role", "item.role %.40q: allowed are user, assistant and system", d.Role)
	}
	if len(d.Content) == 0 {
		return nil, faultf("invalid_value", "item.content", "item.content is empty: allowed are %s", allowed)
	}
	content := make([]dialect.Part, len(d.Content))
	for i, p := range d.Content {
		content[i] = p
		switch {
		case p.Type == "input_text" && d.Role != "assistant", p.Type == "output_text" && d.Role == "assistant":
			m.Content = append(m.Content, chatctx.Text{Text: p.Text})
		case p.Type == "input_audio" && d.Role == "user" && p.Transcript != nil:
			m.Content = append(m.Content, chatctx.Text{Text: *p.Transcript})
			content[i].Audio = ""
		case p.Type == "input_image" && d.Role == "user" && strings.HasPrefix(p.ImageURL, "data:"):
			detail := p.Detail
			if detail == "" {
				detail = "auto"
			}
			m.Content = append(m.Content, chatctx.ImageContent{URL: p.ImageURL, Detail: detail})
			content[i].ImageURL = ""
		case p.Type == "input_image" && d.Role == "user":
			return nil, faultf("invalid_value", "item.content.image_url", "image_url: a data: URL of a PNG or JPEG is allowed")
		default:
			return nil, faultf("invalid_value", "item.content.type", "a part of type %.40q in a message of role %s: allowed are %s", p.Type, d.Role, allowed)
		}
	}
	d.Content = content
	return m, nil
}

func (c *core) retrieve(e *dialect.ItemRetrieve) {
	it := c.chat.byID[e.ItemID]
	if it == nil {
		c.refuse(e.EventID, faultf("item_retrieve_invalid_item_id", "item_id", "there is no item %.80q", e.ItemID))
		return
	}
	c.send(&dialect.ItemRetrieved{EventID: c.eventID(), Item: it.Item})
}

// remove takes an item out, of the log too.
func (c *core) remove(e *dialect.ItemDelete) {
	it := c.chat.byID[e.ItemID]
	if it == nil {
		c.refuse(e.EventID, faultf("item_delete_invalid_item_id", "item_id", "there is no item %.80q", e.ItemID))
		return
	}
	c.amend(it, chatctx.Op{Kind: chatctx.OpRemove})
	c.chat.gone(it.ID)
	c.chat.remove(it.ID)
	if it.answer { // the leg may hold the words itself
		c.do(eLeg{switcher.InterruptedIn{Item: it.ID}})
	}
	c.send(&dialect.ItemDeleted{EventID: c.eventID(), ItemID: it.ID})
}

// truncate cuts an answer to what was heard of it.
func (c *core) truncate(e *dialect.ItemTruncate) {
	it := c.chat.byID[e.ItemID]
	switch {
	case it == nil || it.Role != "assistant" || it.sound == 0:
		c.refuse(e.EventID, faultf("item_truncate_invalid_item_id", "item_id", "there is no sound of the assistant's with the id %.80q", e.ItemID))
		return
	case e.ContentIndex != 0:
		c.refuse(e.EventID, faultf("invalid_value", "content_index", "content_index %d: the sound is part 0", e.ContentIndex))
		return
	case e.AudioEndMs < 0 || time.Duration(e.AudioEndMs)*time.Millisecond > it.sound+time.Millisecond:
		c.refuse(e.EventID, faultf("item_truncate_invalid_audio_end_ms", "audio_end_ms", "audio_end_ms %d: the item has %d ms of sound", e.AudioEndMs, it.sound.Milliseconds()))
		return
	}
	heard := time.Duration(e.AudioEndMs) * time.Millisecond
	if a := c.answers.turns[it.ID]; a != nil && !a.done { // it is still being made
		c.cancel(dialect.StatusCancelled, "client_cancelled", "")
	}
	if len(it.pieces) == 0 { // a leg that does not say which words are where
		it.pieces = []piece{{it.sound, it.Text()}}
	}
	text := heardText(it.pieces, heard)
	it.sound = heard
	it.Content, it.Status = []dialect.Part{{Type: "output_audio", Transcript: &text}}, dialect.StatusIncomplete
	if text == "" {
		c.amend(it, chatctx.Op{Kind: chatctx.OpRemove})
	} else {
		content, yes := chatctx.TextContent(text), true
		c.amend(it, chatctx.Op{Kind: chatctx.OpUpdate, Changes: chatctx.Changes{Content: &content, Interrupted: &yes}})
	}
	c.do(eLeg{switcher.InterruptedIn{Item: it.ID, Played: heard, Text: text}})
	c.send(&dialect.ItemTruncated{EventID: c.eventID(), ItemID: it.ID, ContentIndex: 0, AudioEndMs: e.AudioEndMs})
}

// amend changes an item in the log, as soon as it is there.
func (c *core) amend(it *item, op chatctx.Op) {
	op.ID, op.ItemID = c.opID(), it.ID
	if it.logged {
		c.do(eAppend{op, nil})
		return
	}
	if len(c.chat.later) < maxItems {
		c.chat.later[it.ID] = op
	}
}

// entry is one that has come into the log: what others have put in or taken out is told to the client.
func (c *core) entry(e chatctx.Entry) {
	if strings.HasPrefix(e.OpID, c.cfg.opPrefix) {
		return
	}
	gone := e.Removed
	switch e.Op {
	case chatctx.OpAppend:
		c.appended(e)
	case chatctx.OpRemove:
		gone = append(slices.Clone(gone), e.ItemID)
	}
	for _, id := range gone {
		if c.chat.byID[id] != nil {
			c.chat.remove(id)
			c.send(&dialect.ItemDeleted{EventID: c.eventID(), ItemID: id})
		}
	}
}

func (c *core) appended(e chatctx.Entry) {
	id := e.Item.ItemID()
	if it := c.chat.byID[id]; it != nil {
		it.logged = true
	}
	if op, due := c.chat.later[id]; due {
		delete(c.chat.later, id)
		c.do(eAppend{op, nil})
	}
	switch {
	case c.chat.byID[id] != nil:
		return // the client knows what the leg says as it was said
	case c.cfg.watch:
		c.mirror(e.Item, e.After)
		return
	case recorded(e):
		return
	}
	d, ok := itemOf(e.Item)
	if !ok {
		return
	}
	if call, isCall := e.Item.(*chatctx.FunctionCall); isCall {
		c.tools.past(call.CallID, call.Name)
	}
	c.add(&item{Item: d, logged: true}, e.After)
}

// recorded: the session wrote the entry, of what its leg said and did.
func recorded(e chatctx.Entry) bool {
	return strings.HasPrefix(e.OpID, "rec:") || strings.HasPrefix(e.OpID, "sw:")
}

// itemOf is an item of the log as the dialect has it; handoffs, summaries and the like have no place there.
func itemOf(logged chatctx.Item) (d dialect.Item, ok bool) {
	d = dialect.Item{ID: logged.ItemID(), Object: "realtime.item", Status: dialect.StatusCompleted}
	switch l := logged.(type) {
	case *chatctx.Message:
		d.Type, d.Role = dialect.ItemMessage, string(l.Role)
		kind := "input_text"
		switch l.Role {
		case chatctx.RoleAssistant:
			kind = "output_text"
		case chatctx.RoleDeveloper:
			d.Role = "system"
		}
		for _, p := range l.Content {
			switch p := p.(type) {
			case chatctx.Text:
				d.Content = append(d.Content, dialect.Part{Type: kind, Text: p.Text})
			case chatctx.ImageContent:
				d.Content = append(d.Content, dialect.Part{Type: "input_image", Detail: p.Detail})
			}
		}
		if l.Interrupted {
			d.Status = dialect.StatusIncomplete
		}
		return d, true
	case *chatctx.FunctionCall:
		d.Type, d.CallID, d.Name, d.Arguments = dialect.ItemCall, l.CallID, l.Name, l.Arguments
		return d, true
	case *chatctx.FunctionCallOutput:
		d.Type, d.CallID, d.Output = dialect.ItemCallOutput, l.CallID, l.Output
		return d, true
	}
	return d, false
}

// heardText is what was said in so much of the sound; a word that was begun is left out.
func heardText(pieces []piece, heard time.Duration) string {
	var b strings.Builder
	from := time.Duration(0)
	for _, p := range pieces {
		switch {
		case p.end <= heard:
			b.WriteString(p.text)
		case from < heard:
			n := int(float64(len(p.text)) * float64(heard-from) / float64(p.end-from))
			if i := strings.LastIndexAny(p.text[:min(n+1, len(p.text))], " \n"); i > 0 {
				b.WriteString(p.text[:i])
			}
		}
		from = p.end
	}
	return strings.TrimSpace(b.String())
}

// unlogged are the messages that the log may not hold yet, oldest first: the session writes what is said at its own pace.
func (c *core) unlogged() chatctx.Items {
	var out chatctx.Items
	for _, it := range c.chat.items {
		if text := strings.TrimSpace(it.Text()); !it.logged && it.Type == dialect.ItemMessage && it.Status != dialect.StatusInProgress && text != "" {
			out = append(out, &chatctx.Message{ID: it.ID, Role: chatctx.Role(it.Role), Content: chatctx.TextContent(text)})
		}
	}
	return out
}

// chatItem is an item of the client's as the model is to read it; ok is false for what it cannot.
func chatItem(d dialect.Item) (item chatctx.Item, ok bool) {
	switch d.Type {
	case dialect.ItemMessage:
		if m, f := message(&d); f == nil {
			return m, true
		}
		if text := d.Text(); text != "" {
			return &chatctx.Message{ID: d.ID, Role: chatctx.Role(d.Role), Content: chatctx.TextContent(text)}, true
		}
	case dialect.ItemCall:
		return &chatctx.FunctionCall{ID: d.ID, CallID: d.CallID, Name: d.Name, Arguments: d.Arguments}, true
	case dialect.ItemCallOutput:
		return &chatctx.FunctionCallOutput{ID: d.ID, CallID: d.CallID, Output: d.Output}, true
	}
	return nil, false
}
