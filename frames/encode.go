package frames

// Encode makes an image of frame: a JPEG or PNG of the size the options ask for. Nil options are DefaultEncodeOptions.
//
// A frame is encoded bytes ([]byte of a JPEG, PNG, GIF or WebP, at most 50 megapixels and 16384 pixels a side, decoded first), an
// image.Image, a *Raw, a *Picture or an *Image. An EXIF orientation is applied. JPEG has no transparency: it is laid on white; PNG keeps it.
// Pictures and raw planes are scaled by the live path, and so are JPEGs of 4 megapixels and more that shrink, after they have been scaled in
// the DCT; everything else by Lanczos as the seeds' own path does.
//
// It works in the caller's goroutine and takes at most 256 MB, refusing what needs more. Where many may ask at once, use Stills.
//
// The error says what is wrong with the frame or the options, and what is allowed; ErrStillTooLarge is of bounds.
func Encode(frame any, opts *EncodeOptions) ([]byte, error) {
	o := DefaultEncodeOptions()
	if opts != nil {
		o = *opts
	}
	p, err := planStill(frame, o)
	if err != nil {
		return nil, err
	}
	return p.make()
}

// CoerceImageToJPEGBytes returns the bytes of an image: a frame that already is bytes ([]byte or *Image) as it is, the same memory and
// whatever it holds; every other frame as Encode makes it. Nil options are DefaultRealtimeEncodeOptions.
func CoerceImageToJPEGBytes(frame any, opts *EncodeOptions) ([]byte, error) {
	switch f := frame.(type) {
	case []byte:
		return f, nil
	case *Image:
		if f != nil {
			return f.Data, nil
		}
	}
	o := DefaultRealtimeEncodeOptions()
	if opts != nil {
		o = *opts
	}
	return Encode(frame, &o)
}
