package detect

import (
	"net/netip"
	"strings"
)

const (
	// versionReach is how far before a version its name is looked for.
	versionReach = 24
	// nextVersion is how far behind a version another one may stand.
	nextVersion = 8
	// versionNumber is what each number of a version is below, when nothing near it tells a version from an address.
	versionNumber = 64
	// longestAddress is the longest form of an IPv6 address.
	longestAddress = 45
)

// Words that tell versions from addresses; the nearest one counts. Those of strongVersion stand right before it.
const (
	strongVersion = "version release firmware revision oid section v ver"
	weakVersion   = "cuda cudnn cublas cusparse nccl nvidia driver image upgrade upgraded downgraded package wheel install build lib toolkit tag kernel runtime chrome"
	addressWords  = "ip addr address host hostname peer client server remote node inet route ping connect connected listen ssh src dst proxy"
)

// address4 masks the IPv4 address of a host that begins a number, and returns where it ends. Loopback, unspecified
// and multicast addresses are nobody's, networks are no hosts, and versions of four parts look the same.
func (s *scan) address4(start int) (int, bool) {
	text := s.text
	end, ok := dottedEnd(text, start)
	if !ok || !s.beginsAddress(start) {
		return 0, false
	}
	if end < len(text) && text[end] == '/' {
		if stop := digitsEnd(text, end+1); stop > end+1 && isNetwork(text[start:stop]) {
			return stop, true
		}
	}
	address, err := netip.ParseAddr(text[start:end])
	if err != nil || address.IsLoopback() || address.IsMulticast() || text[start] == '0' || strings.HasPrefix(text[start:end], "255.") {
		return 0, false
	}
	if s.isVersion(start, end, address) {
		s.versionEnd = end
		return end, true
	}
	s.addPersonal(start, end, "ip_address")
	return end, true
}

// dottedEnd returns where four numbers with dots between them end, when nothing that belongs to them follows.
func dottedEnd(text string, start int) (int, bool) {
	position := start
	for part := range 4 {
		end := digitsEnd(text, position)
		if end == position || end > position+3 {
			return 0, false
		}
		position = end
		if part < 3 {
			if position >= len(text) || text[position] != '.' {
				return 0, false
			}
			position++
		}
	}
	if wordBeginsAt(text, position) {
		return 0, false
	}
	if isPortBehind(text, position) {
		return position, true
	}
	if position+1 < len(text) && (text[position] == '.' || text[position] == '-') && isAlnum(text[position+1]) {
		return 0, false
	}
	return position, true
}

// isPortBehind says whether a port follows an address behind a dot, as tcpdump prints it: 10.1.2.3.443 > 10.1.2.4.51234:
func isPortBehind(text string, position int) bool {
	if position >= len(text) || text[position] != '.' {
		return false
	}
	end := digitsEnd(text[:min(len(text), position+7)], position+1)
	return end > position+1 && (strings.HasPrefix(text[end:], " > ") || strings.HasPrefix(text[end:], ": "))
}

func digitsEnd(text string, position int) int {
	for position < len(text) && isDigit(text[position]) {
		position++
	}
	return position
}

// beginsAddress says whether what stands before a number lets an address begin. A hyphen belongs to a name, as in
// agent-1.2.3.4, unless the name says address.
func (s *scan) beginsAddress(start int) bool {
	text := s.text
	if wordEndsAt(text, start) || start > 0 && text[start-1] == '.' {
		return false
	}
	if start > 1 && text[start-1] == '-' && wordEndsAt(text, start-1) {
		before := text[max(0, start-1-versionReach) : start-1]
		return namesNear(before[strings.LastIndexAny(before, " \t\n,;")+1:], addressWords)
	}
	return true
}

// isNetwork says whether an address with a prefix length has no bits of a host.
func isNetwork(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && !prefix.IsSingleIP() && prefix.Masked() == prefix
}

var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
}

// isReserved says whether an address belongs to a network of its own: numbers of versions are seldom those.
func isReserved(address netip.Addr) bool {
	if address.IsPrivate() || address.IsLinkLocalUnicast() {
		return true
	}
	for _, network := range reservedNetworks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// isVersion says whether four numbers are a version, or the number of a section. With a port they are an address.
func (s *scan) isVersion(start, end int, address netip.Addr) bool {
	text := s.text
	if end+1 < len(text) && text[end] == ':' && isDigit(text[end+1]) {
		return false
	}
	if s.keyOfVersion() || end < len(text) && text[end] == '+' {
		return true
	}
	if start > 1 && text[start-1] == '/' && isAlnum(text[start-2]) { // name/1.2.3.4
		return true
	}
	before := text[max(0, start-versionReach):start]
	before = before[strings.LastIndexByte(before, '\n')+1:]
	if s.versionEnd > 0 && start-s.versionEnd <= nextVersion && !strings.Contains(text[s.versionEnd:start], "\n") {
		return true
	}
	bare := strings.TrimRight(before, " \t\"'\\:=<>~(")
	if strings.HasSuffix(bare, "#") || strings.HasSuffix(before, "==") {
		return true
	}
	name := bare[strings.LastIndexAny(bare, " \t,;({")+1:]
	if namesNear(name, strongVersion) {
		return !namesNear(name, addressWords)
	}
	if isReserved(address) || namesNear(before, addressWords) || namesNear(s.key, addressWords) {
		return false
	}
	return isSmall(address) || namesNear(before, weakVersion)
}

// isSmall says whether all four numbers are as small as those of versions: one in 256 of all addresses is.
func isSmall(address netip.Addr) bool {
	for _, part := range address.As4() {
		if part >= versionNumber {
			return false
		}
	}
	return true
}

func (s *scan) keyOfVersion() bool {
	return s.key != "" && namesNear(s.key, "version")
}

// addresses6 masks IPv6 addresses of hosts. What is written like one is looked at once, however many colons it has.
func (s *scan) addresses6() {
	if !s.detector.personal.address {
		return
	}
	text := s.text
	for position := 0; position < len(text); {
		colon := strings.IndexByte(text[position:], ':')
		if colon < 0 {
			return
		}
		start := position + colon
		for start > position && isHex(text[start-1]) {
			start--
		}
		end := position + colon
		colons := 0
		for end < len(text) && (isHex(text[end]) || text[end] == ':' || text[end] == '.') {
			if text[end] == ':' {
				colons++
			}
			end++
		}
		if colons > 1 {
			s.address6(start, end)
		}
		position = end
	}
}

// address6 looks at a run of hexadecimal digits, colons and dots. One that ends in two colons is a network.
func (s *scan) address6(start, end int) {
	text := s.text
	if wordEndsAt(text, start) { // eth0:2001:db8::1
		first := strings.IndexByte(text[start:end], ':')
		if start += first + 1; start >= end || text[start] == ':' {
			return
		}
	}
	for end > start && (text[end-1] == '.' || text[end-1] == ':' && !strings.HasSuffix(text[start:end], "::")) {
		end--
	}
	if dot := strings.IndexByte(text[start:end], '.'); dot > 0 && isPortBehind(text, start+dot) {
		end = start + dot
	}
	piece := text[start:end]
	if len(piece) > longestAddress || strings.HasSuffix(piece, "::") || wordBeginsAt(text, end) || !isHostRange(piece) || s.isSlice(start, piece) {
		return
	}
	address, err := netip.ParseAddr(piece)
	if err != nil || address.Unmap().IsLoopback() {
		return
	}
	if end < len(text) && text[end] == '/' {
		if stop := digitsEnd(text, end+1); stop > end+1 && isNetwork(text[start:stop]) {
			return
		}
	}
	s.addPersonal(start, end, "ip_address")
}

// isHostRange says whether an address begins as those that hosts are given: 2000::/3, fc00::/7, fe80::/10 and mapped IPv4.
// Other beginnings are those of paths in code, times and hardware addresses.
func isHostRange(piece string) bool {
	first, _, _ := strings.Cut(piece, ":")
	lowered := strings.ToLower(first)
	switch {
	case first == "":
		return len(piece) > 7 && strings.EqualFold(piece[:7], "::ffff:")
	case len(first) != 4:
		return false
	case first[0] == '2' || first[0] == '3' || lowered[:2] == "fc" || lowered[:2] == "fd":
		return true
	}
	return lowered[:2] == "fe" && strings.IndexByte("89ab", lowered[2]) >= 0
}

// isSlice says whether two numbers are the borders of a slice, as in x[2048::512].
func (s *scan) isSlice(start int, piece string) bool {
	return start > 1 && s.text[start-1] == '[' && (isWordByte(s.text[start-2]) || s.text[start-2] == ']' || s.text[start-2] == ')') &&
		strings.Count(piece, ":") == 2 && !strings.ContainsAny(piece, "abcdefABCDEF")
}
