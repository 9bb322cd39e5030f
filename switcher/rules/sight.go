package rules

import (
	"fmt"
	"strings"
	"time"

	"sightline/switcher"
)

const nothing = "I see nothing: no camera or screen is being sent."

// each says something about every source, or that there is none.
func each(turn Turn, say func(switcher.Sight) string) string {
	if len(turn.Seen) == 0 {
		return nothing
	}
	var all []string
	for _, s := range turn.Seen {
		if s.Width == 0 {
			all = append(all, missing(s))
			continue
		}
		all = append(all, say(s))
	}
	return strings.Join(all, " ")
}

func describe(turn Turn, _ history) string {
	return each(turn, func(s switcher.Sight) string {
		text := fmt.Sprintf("I see %s: %d×%d, mean brightness %.0f of 255 (%s), captured %s",
			sourceName(s.Source), s.Width, s.Height, s.Brightness, light(s.Brightness), ago(s.Age))
		switch s.State {
		case "black":
			text += "; the picture is black: the camera is covered or muted"
		case "stalled":
			text += "; nothing new is arriving"
		case "ended":
			text += "; it has ended"
		}
		return text + "."
	})
}

func tellBrightness(turn Turn, _ history) string {
	return each(turn, func(s switcher.Sight) string {
		return fmt.Sprintf("The mean brightness of %s is %.0f of 255: %s.", sourceName(s.Source), s.Brightness, light(s.Brightness))
	})
}

func tellAge(turn Turn, _ history) string {
	return each(turn, func(s switcher.Sight) string {
		return fmt.Sprintf("The newest image of %s was captured %s.", sourceName(s.Source), ago(s.Age))
	})
}

func tellSize(turn Turn, _ history) string {
	return each(turn, func(s switcher.Sight) string {
		return fmt.Sprintf("The image of %s has %d×%d pixels and %d bytes.", sourceName(s.Source), s.Width, s.Height, len(s.JPEG))
	})
}

// missing: the source is known, and no image of it could be had.
func missing(s switcher.Sight) string {
	switch s.State {
	case "ended":
		return fmt.Sprintf("%s has ended.", upper(sourceName(s.Source)))
	case "stalled":
		return fmt.Sprintf("%s is stalled: nothing is arriving.", upper(sourceName(s.Source)))
	}
	return fmt.Sprintf("There is no image of %s yet.", sourceName(s.Source))
}

func sourceName(source string) string {
	if source == "" {
		return "your video"
	}
	return "your " + source
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// light puts a mean luma into words; the borders are a matter of taste.
func light(mean float64) string {
	switch {
	case mean < 8:
		return "black"
	case mean < 50:
		return "very dark"
	case mean < 85:
		return "dim"
	case mean < 175:
		return "normal light"
	case mean < 225:
		return "bright"
	}
	return "very bright"
}

// ago prints an age; clocks of two machines may differ, so that it can be negative.
func ago(age time.Duration) string {
	switch age = max(age, 0); {
	case age < 10*time.Second:
		return fmt.Sprintf("%.1f s ago", age.Seconds())
	case age < 2*time.Minute:
		return fmt.Sprintf("%.0f s ago", age.Seconds())
	}
	return fmt.Sprintf("%.0f min ago", age.Minutes())
}
