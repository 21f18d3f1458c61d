package runtime

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// machineMemory returns the memory of the process, in bytes, and the source of the limit: the
// smallest limit of its cgroups and of those above them, or the memory of the machine. It returns 0
// if it cannot read that, for example on systems other than Linux. root is the file system of the
// machine.
func machineMemory(root fs.FS) (limit int64, source string) {
	if n := totalMemory(root); n > 0 {
		limit, source = n, "the machine"
	}
	for _, g := range memoryCgroups(root) {
		// A container may see its own cgroup as the root of the hierarchy, or not see the path at
		// all. Missing directories are skipped.
		for dir := path.Join(g.mount, path.Clean("/"+g.path)); ; dir = path.Dir(dir) {
			if n := cgroupLimit(root, path.Join(dir, g.file)); n > 0 && (limit == 0 || n < limit) {
				limit, source = n, "the cgroup"
			}
			if dir == g.mount || len(dir) <= len(g.mount) {
				break
			}
		}
	}
	return limit, source
}

// A memoryCgroup is a place in a hierarchy of cgroups that may limit memory.
type memoryCgroup struct {
	mount, path string // without a leading slash
	file        string // of the limit
}

// memoryCgroups returns the cgroups that may limit the memory of the process: those of version 2,
// and those of version 1's memory controller.
func memoryCgroups(root fs.FS) (groups []memoryCgroup) {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy, controllers, path
		if len(f) != 3 {
			continue
		}
		if f[1] == "" {
			for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
				groups = append(groups, memoryCgroup{mount, f[2], "memory.max"})
			}
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			if controller == "memory" {
				groups = append(groups, memoryCgroup{"sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes"})
			}
		}
	}
	return groups
}

// unlimited is the least number in version 1's file that means no limit. The file has the largest
// multiple of a page then.
const unlimited = 1 << 60

// cgroupLimit reads the limit in a file; 0 means none.
func cgroupLimit(root fs.FS, name string) int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64) // "max" is none
	if err != nil || n <= 0 || n >= unlimited {
		return 0
	}
	return n
}

// totalMemory returns the memory of the machine, or 0 if it cannot read it.
func totalMemory(root fs.FS) int64 {
	f, err := root.Open("proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		field := strings.Fields(s.Text())
		if len(field) == 3 && field[0] == "MemTotal:" && field[2] == "kB" {
			if n, err := strconv.ParseInt(field[1], 10, 64); err == nil && n > 0 && n < unlimited>>10 {
				return n << 10
			}
		}
	}
	return 0
}
