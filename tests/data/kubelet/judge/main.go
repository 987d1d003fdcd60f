// Lets the kubelet's own managers judge pods: reads scenarios (JSON, one after the other) and prints
// what its device, CPU, memory and topology managers made of every step.
//
// Built with the module file of e2e/controlplane/modules/kubernetes:
//
//	go build -mod=mod -ldflags=-checklinkname=0
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	_ "unsafe"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
	"time"
)

// The exported constructor insists on the kubelet's own directory.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(logger klog.Logger, socketPath string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// Cell, Op, Scenario: the input.
type Cell struct {
	Id      int            `json:"id"`
	Cpus    int            `json:"cpus"`
	Memory  uint64         `json:"memory"`
	Huge2Mi uint64         `json:"huge2mi"`
	Devices map[string]int `json:"devices"`
}
type Op struct {
	Op  string  `json:"op"`
	Pod *v1.Pod `json:"pod"`
	Uid string  `json:"uid"`
}
type Scenario struct {
	Cells    []Cell         `json:"cells"`
	Threads  int            `json:"threads"`
	Reserved []int          `json:"reserved"`
	RMem     int64          `json:"reservedMemory"`
	Loose    map[string]int `json:"loose"`
	Policy   string         `json:"policy"`
	Scope    string         `json:"scope"`
	Cpu      bool           `json:"cpu"`
	Mem      bool           `json:"mem"`
	Ops      []Op           `json:"ops"`
}

// Result says why a pod was refused, what each container got, and what is left.
type Result struct {
	Reason string                      `json:"reason"`
	Cpus   []int                       `json:"cpus"`
	Mem    map[string]map[int]uint64   `json:"mem"`
	Held   map[string]map[string][]int `json:"held"`
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type statuses struct{}

func (statuses) GetPodStatus(uid types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

type client struct{ pluginapi.DevicePluginClient }

func (client) GetDevicePluginOptions(ctx context.Context, in *pluginapi.Empty, opts ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}
func (client) Allocate(ctx context.Context, in *pluginapi.AllocateRequest, opts ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

type dp struct{ name string }

func (d dp) API() pluginapi.DevicePluginClient { return client{} }
func (d dp) Resource() string                  { return d.name }
func (d dp) SocketPath() string                { return "" }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func run(s Scenario) []Result {
	dir, err := os.MkdirTemp("", "judge")
	must(err)
	defer os.RemoveAll(dir)
	logger := klog.Background()
	ctx := context.Background()
	var topo []cadvisorapi.Node
	cores := 0
	for _, c := range s.Cells {
		cores += c.Cpus / s.Threads
	}
	core, total, totalMem := 0, 0, uint64(0)
	for i, c := range s.Cells {
		n := cadvisorapi.Node{Id: c.Id, Memory: c.Memory + c.Huge2Mi}
		if c.Huge2Mi > 0 {
			n.HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: c.Huge2Mi / (2 << 20)}}
		}
		for j := 0; j < c.Cpus/s.Threads; j++ {
			var threads []int
			for t := 0; t < s.Threads; t++ {
				threads = append(threads, core+t*cores)
			}
			n.Cores = append(n.Cores, cadvisorapi.Core{Id: core, Threads: threads, SocketID: i})
			core++
		}
		total += c.Cpus
		totalMem += c.Memory
		topo = append(topo, n)
	}
	mi := &cadvisorapi.MachineInfo{NumCores: total, NumSockets: len(s.Cells), MemoryCapacity: totalMem, Topology: topo}
	tm, err := topologymanager.NewManager(topo, s.Policy, s.Scope, nil)
	must(err)
	dm, err := newManagerImpl(logger, dir+"/dev/kubelet.sock", topo, tm)
	must(err)
	cpuPolicy, memPolicy := "none", "None"
	if s.Cpu {
		cpuPolicy = "static"
	}
	if s.Mem {
		memPolicy = "Static"
	}
	res := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(len(s.Reserved)), resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(s.RMem, resource.BinarySI)}
	cm, err := cpumanager.NewManager(logger, cpuPolicy, nil, time.Hour, mi, cpuset.New(), res, dir, tm)
	must(err)
	mm, err := memorymanager.NewManager(logger, memPolicy, mi, res, []kubeletconfig.MemoryReservation{{NumaNode: int32(s.Cells[0].Id), Limits: v1.ResourceList{v1.ResourceMemory: res[v1.ResourceMemory]}}}, dir, tm)
	must(err)
	tm.AddHintProvider(logger, dm)
	tm.AddHintProvider(logger, cm)
	tm.AddHintProvider(logger, mm)
	active := map[types.UID]*v1.Pod{}
	var mu sync.Mutex
	pods := func() []*v1.Pod {
		mu.Lock()
		defer mu.Unlock()
		var out []*v1.Pod
		for _, p := range active {
			out = append(out, p)
		}
		return out
	}
	must(dm.Start(logger, pods, ready{}, containermap.NewContainerMap(), sets.New[string]()))
	defer dm.Stop(logger)
	must(cm.Start(ctx, pods, ready{}, statuses{}, nil, containermap.NewContainerMap()))
	must(mm.Start(ctx, pods, ready{}, statuses{}, nil, containermap.NewContainerMap()))
	devs := map[string][]*pluginapi.Device{}
	for _, c := range s.Cells {
		for name, n := range c.Devices {
			for i := 0; i < n; i++ {
				devs[name] = append(devs[name], &pluginapi.Device{ID: fmt.Sprintf("c%d-%d", c.Id, i), Health: pluginapi.Healthy, Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(c.Id)}}}})
			}
		}
	}
	for name, n := range s.Loose {
		for i := 0; i < n; i++ {
			devs[name] = append(devs[name], &pluginapi.Device{ID: fmt.Sprintf("l-%d", i), Health: pluginapi.Healthy})
		}
	}
	for name, d := range devs {
		must(dm.PluginConnected(ctx, name, dp{name}))
		dm.PluginListAndWatchReceiver(logger, name, &pluginapi.ListAndWatchResponse{Devices: d})
	}
	var out []Result
	for _, op := range s.Ops {
		r := Result{}
		switch op.Op {
		case "admit":
			mu.Lock()
			active[op.Pod.UID] = op.Pod
			mu.Unlock()
			a := tm.Admit(&lifecycle.PodAdmitAttributes{Pod: op.Pod})
			if !a.Admit {
				r.Reason = a.Reason
				mu.Lock()
				delete(active, op.Pod.UID)
				mu.Unlock()
			}
		case "started":
			p := active[types.UID(op.Uid)]
			if p != nil {
				for _, c := range append(append([]v1.Container{}, p.Spec.InitContainers...), p.Spec.Containers...) {
					mm.AddContainer(logger, p, &c, op.Uid+"/"+c.Name)
					cm.AddContainer(logger, p, &c, op.Uid+"/"+c.Name)
				}
			}
		case "release":
			mu.Lock()
			delete(active, types.UID(op.Uid))
			mu.Unlock()
		}
		// garbage collection happens before the next admission: provoke it
		nobody := &v1.Pod{}
		nobody.UID = "nobody"
		cm.GetPodTopologyHints(nobody)
		mm.GetPodTopologyHints(nobody)
		dm.UpdateAllocatedDevices()
		if s.Cpu {
			r.Cpus = cm.State().GetDefaultCPUSet().List()
		}
		r.Mem = map[string]map[int]uint64{}
		for id, n := range mm.State().GetMachineState() {
			for name, t := range n.MemoryMap {
				if r.Mem[string(name)] == nil {
					r.Mem[string(name)] = map[int]uint64{}
				}
				r.Mem[string(name)][id] = t.Free
			}
		}
		if op.Op == "admit" && r.Reason == "" {
			r.Held = map[string]map[string][]int{}
			for _, c := range append(append([]v1.Container{}, op.Pod.Spec.InitContainers...), op.Pod.Spec.Containers...) {
				h := map[string][]int{}
				if x := cm.GetExclusiveCPUs(string(op.Pod.UID), c.Name); x.Size() > 0 {
					h["cpu"] = x.List()
				}
				for name, ds := range dm.GetDevices(string(op.Pod.UID), c.Name) {
					per := map[int]int{}
					for _, d := range ds {
						id := -1
						if d.Topology != nil && len(d.Topology.Nodes) > 0 {
							id = int(d.Topology.Nodes[0].ID)
						}
						per[id]++
					}
					for id, n := range per {
						h[name] = append(h[name], id, n)
					}
				}
				r.Held[c.Name] = h
			}
		}
		out = append(out, r)
	}
	return out
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	dec := json.NewDecoder(os.Stdin)
	enc := json.NewEncoder(os.Stdout)
	for {
		var s Scenario
		if err := dec.Decode(&s); err == io.EOF {
			return
		} else {
			must(err)
		}
		must(enc.Encode(run(s)))
	}
}
