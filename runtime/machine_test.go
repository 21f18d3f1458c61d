package runtime

import (
	"testing"
	"testing/fstest"
)

func TestMemoryOfTheMachineIsReadFromItsFiles(t *testing.T) {
	const meminfo = "MemTotal:        8388608 kB\nMemFree:         123 kB\n" // 8 GiB
	const noLimit = "9223372036854771712\n"
	for name, test := range map[string]struct {
		files  map[string]string
		want   int64
		source string
	}{
		"nothing is known":   {nil, 0, ""},
		"no cgroups":         {map[string]string{"proc/meminfo": meminfo}, 8 << 30, "the machine"},
		"faulty meminfo":     {map[string]string{"proc/meminfo": "MemTotal: much kB\n"}, 0, ""},
		"version 2":          {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/app.slice/cairn.service\n", "sys/fs/cgroup/app.slice/cairn.service/memory.max": "536870912\n"}, 512 << 20, "the cgroup"},
		"version 2, no max":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/memory.max": "max\n"}, 8 << 30, "the machine"},
		"version 2, above":   {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/b/memory.max": "2147483648\n"}, 1 << 30, "the cgroup"},
		"version 2, as root": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, "the cgroup"},
		"version 2, hidden":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../kubepods/x\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, "the cgroup"},
		"version 1":          {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n", "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": noLimit}, 512 << 20, "the cgroup"},
		"version 1, hidden":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n"}, 128 << 20, "the cgroup"},
		"version 1, none":    {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": noLimit}, 8 << 30, "the machine"},
		"larger than it is":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "17179869184\n"}, 8 << 30, "the machine"},
		"faulty files":       {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "memory\n4:memory\n0::/a\n", "sys/fs/cgroup/a/memory.max": "-5\n"}, 8 << 30, "the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			root := make(fstest.MapFS)
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got, source := machineMemory(root); got != test.want || source != test.source {
				t.Errorf("%d bytes by %q, want %d by %q", got, source, test.want, test.source)
			}
		})
	}
}
