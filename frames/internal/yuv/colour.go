package yuv

// Matrix says which mix of red, green and blue luma and chroma are.
type Matrix uint8

// The matrices that are told apart. MatrixUnknown is what a stream that says nothing has, and is taken as BT.601.
const (
	MatrixUnknown Matrix = iota
	BT601
	BT709
	BT2020 // non-constant luminance
	SMPTE240
)

func (m Matrix) String() string {
	return [...]string{"unknown", "bt601", "bt709", "bt2020", "smpte240"}[min(m, SMPTE240)]
}

// MatrixOf is the matrix of a matrix_coefficients code (ITU-T H.273, table 4), which H264, AV1 and the RTP colour space extension share.
// What is no mix of this kind (RGB, YCgCo, constant luminance) is unknown; FCC differs from BT.601 by a level at most.
func MatrixOf(code int) Matrix {
	switch code {
	case 1:
		return BT709
	case 4, 5, 6:
		return BT601
	case 7:
		return SMPTE240
	case 9:
		return BT2020
	}
	return MatrixUnknown
}

// weights of red and blue in luma (H.273, equations 41 and following).
func (m Matrix) weights() (kr, kb float64) {
	switch m {
	case BT709:
		return .2126, .0722
	case BT2020:
		return .2627, .0593
	case SMPTE240:
		return .212, .087
	}
	return .299, .114
}

// To601 is what turns full-range values of m into BT.601's, as JPEG has it, with chroma around 0:
//
//	Y' = Y + k[0]·Cb + k[1]·Cr    Cb' = k[2]·Cb + k[3]·Cr    Cr' = k[4]·Cb + k[5]·Cr
//
// same: there is nothing to turn.
func (m Matrix) To601() (k [6]float64, same bool) {
	kr, kb := m.weights()
	jr, jb := BT601.weights()
	if kr == jr && kb == jb {
		return [6]float64{0, 0, 1, 0, 0, 1}, true
	}
	kg, jg := 1-kr-kb, 1-jr-jb
	rr, bb := 2*(1-kr), 2*(1-kb)       // red is Y + rr·Cr, blue Y + bb·Cb
	gb, gr := -kb*bb/kg, -kr*rr/kg     // green is Y + gb·Cb + gr·Cr
	yb, yr := jg*gb+jb*bb, jr*rr+jg*gr // the weights add up to 1, so that Y' begins with Y
	k = [6]float64{yb, yr, (bb - yb) / (2 * (1 - jb)), -yr / (2 * (1 - jb)), -yb / (2 * (1 - jr)), (rr - yr) / (2 * (1 - jr))}
	return k, false
}

// Colour is what a stream, or what carries it, says of its colours.
type Colour struct {
	Matrix    Matrix
	FullRange bool
}

// Assume takes over what the carrier of a stream says, as far as the stream itself says nothing of its matrix (VP8 never does).
func (p *Picture) Assume(c Colour) {
	if p.Matrix == MatrixUnknown {
		p.Matrix, p.FullRange = c.Matrix, p.FullRange || c.FullRange
	}
}
