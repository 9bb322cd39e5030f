package frames

import "sightline/frames/internal/cmem"

// ReturnMemory gives C memory that is free back to the system. Tracks that come and go leave holes of pictures' size in each of the
// allocator's arenas, and it keeps them: megabytes that are nobody's. It takes milliseconds; call it now and then.
func ReturnMemory() { cmem.Trim() }
