// Package addresses shows addresses without the users, passwords, queries and tokens that people write into them: for logs, errors
// and answers. The Python package does the same in otel_rl/core/addresses.py; testdata/cases.json holds both to the same answers.
package addresses

import (
	"regexp"
	"strings"
)

// removed stands for a token in a path.
const removed = "***"

var (
	// run is what may be one address: an escaped quote ends it as a quote does.
	run              = regexp.MustCompile("(?:[^\\s\"`<>\\\\]|\\\\[^\\s\"`<>])+")
	scheme           = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]{0,30}(?:://|%3[Aa]%2[Ff]%2[Ff])`)
	endOfHost        = regexp.MustCompile(`[/?#]`)
	endOfEncodedHost = regexp.MustCompile(`[/?#]|%2[Ff]|%3[Ff]|%23`)
	endOfPath        = regexp.MustCompile(`[?#]|%3[Ff]`)
	at               = regexp.MustCompile(`@|%40`)
	hostAndPort      = regexp.MustCompile(`^(?:\[[^\]]*\]|[^:\[\]]*)(?::[0-9]{0,5})?$`)
	name             = regexp.MustCompile(`^[(\[']*(?:[A-Za-z_][A-Za-z0-9_]*=)?`)
	saysSo           = regexp.MustCompile(`^(?i:token|key|api[_-]?key|secret|password)$`)
	long             = regexp.MustCompile(`[A-Za-z0-9_.~%+:=-]{20,}`)
	// takenForPort is what Go and Python say of a password behind an address that they took for a port.
	takenForPort = regexp.MustCompile(`(invalid port|to integer value as) (?:\\?"[^"]*"|'[^']*')`)
)

const (
	// takenForHost is what Go writes before a password that it took for the name of a port.
	takenForHost = "tcp/"
	closing      = ")]',;"
	digits       = "0123456789"
	letters      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// WithoutSecrets returns a text with its addresses as they may be shown, those without a scheme too. Users, passwords, queries and
// fragments are left out. In the path of a URL *** stands for what follows token, key and the like, and for what is long and has both
// letters and digits.
func WithoutSecrets(text string) string {
	if !strings.ContainsAny(text, "@?%") && !strings.Contains(text, "://") {
		return text
	}
	return run.ReplaceAllStringFunc(takenForPort.ReplaceAllString(text, "$1"), shown)
}

// shownError is an error whose text shows its addresses without secrets; it is the error inside in every other respect.
type shownError struct {
	error
	text string
}

func (e shownError) Error() string { return e.text }

func (e shownError) Unwrap() error { return e.error }

// Shown returns an error with the same text without secrets, or the error itself where its text has none.
func Shown(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if without := WithoutSecrets(text); without != text {
		return shownError{err, without}
	}
	return err
}

// shown returns a piece of a text without spaces: it is one URL or several, an account and a host, or no address.
func shown(piece string) string {
	schemes := scheme.FindAllStringIndex(piece, -1)
	if schemes == nil {
		return withoutAccount(withoutQuery(piece))
	}
	var result strings.Builder
	result.WriteString(withoutAccount(piece[:schemes[0][0]]))
	for number, found := range schemes {
		end := len(piece)
		if number+1 < len(schemes) {
			end = schemes[number+1][0]
		}
		start := piece[found[0]:found[1]]
		result.WriteString(start + withoutUserinfo(piece[found[1]:end], !strings.HasSuffix(start, "/")))
	}
	return result.String()
}

// withoutUserinfo returns what follows a scheme, from the host on, with its path as it may be shown.
func withoutUserinfo(rest string, encoded bool) string {
	host := strings.TrimLeft(rest, "/") // one slash more in addresses of gRPC: dns:///host
	start := rest[:len(rest)-len(host)]
	end := endOfHost
	if encoded {
		end = endOfEncodedHost
	}
	authority := host[:first(end, host)]
	if !at.MatchString(authority) && !hostAndPort.MatchString(authority) {
		authority = host // no host is like this: an unescaped slash or question mark of a password looked like its end
	}
	if ats := at.FindAllStringIndex(authority, -1); ats != nil {
		host = host[ats[len(ats)-1][1]:]
	}
	hostEnds := first(end, host)
	path := host[hostEnds:]
	return start + host[:hostEnds] + withoutTokens(cut(path, endOfPath.FindStringIndex(path)))
}

// first returns where an expression matches first, or the length of the text.
func first(expression *regexp.Regexp, text string) int {
	if found := expression.FindStringIndex(text); found != nil {
		return found[0]
	}
	return len(text)
}

// withoutQuery returns what has no scheme without its query: behind a path, or with a name and a value.
func withoutQuery(piece string) string {
	before, query, _ := strings.Cut(piece, "?")
	if query == "" || !strings.Contains(before, "/") && !strings.Contains(query, "=") {
		return piece
	}
	return cut(piece, []int{len(before), len(before) + 1})
}

// cut returns a text up to what was found, and the brackets and quotes around it that close at its end.
func cut(text string, found []int) string {
	if found == nil {
		return text
	}
	away := text[found[1]:]
	return text[:found[0]] + away[len(strings.TrimRight(away, closing)):]
}

// withoutAccount returns what has no scheme without user and password before its host; a file's path stays.
func withoutAccount(piece string) string {
	last := strings.LastIndexByte(piece, '@')
	if last < 0 {
		return piece
	}
	head := piece[:last]
	begin := len(name.FindString(head))
	account := head[begin:]
	isPath := strings.Contains(account, "/") && !strings.Contains(account, ":")
	for _, start := range []string{"/", "./", "../", "~"} {
		isPath = isPath || strings.HasPrefix(account, start)
	}
	if isPath && !strings.HasPrefix(account, takenForHost) {
		return piece
	}
	return head[:begin] + piece[last+1:]
}

func withoutTokens(path string) string {
	segments := strings.Split(path, "/")
	for number, segment := range segments {
		if number > 0 && segment != "" && saysSo.MatchString(segments[number-1]) {
			segments[number] = removed
			continue
		}
		segments[number] = long.ReplaceAllStringFunc(segment, func(text string) string {
			if strings.ContainsAny(text, digits) && strings.ContainsAny(text, letters) {
				return removed
			}
			return text
		})
	}
	return strings.Join(segments, "/")
}
