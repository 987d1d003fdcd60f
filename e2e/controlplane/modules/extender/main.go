// An extender of kube-scheduler as its authors would write one, with the types of
// k8s.io/kube-scheduler: it knows racks by a label of nodes and reads wishes from annotations of pods.
//
//	filter      nodes of the rack that the annotation example.com/rack names
//	prioritize  nodes by their label example.com/rank, from 0 to 10
//	preempt     victims only on nodes of that rack
//	bind        by itself, and notes that it did in an annotation of the pod
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	rack    = "example.com/rack"
	rank    = "example.com/rank"
	boundBy = "example.com/bound-by"
)

type extender struct {
	client kubernetes.Interface
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	e := &extender{client: client}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	http.HandleFunc("/filter", handle(e.filter))
	http.HandleFunc("/prioritize", handle(e.prioritize))
	http.HandleFunc("/preempt", handle(e.preempt))
	http.HandleFunc("/bind", handle(e.bind))
	log.Fatal(http.ListenAndServe(*address, nil))
}

// handle decodes what a verb is sent and encodes what it answers.
func handle[Args, Result any](verb func(context.Context, Args) Result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(verb(r.Context(), args)); err != nil {
			log.Print(err)
		}
	}
}

func (e *extender) filter(_ context.Context, args extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	wanted := args.Pod.Annotations[rack]
	result := &extenderv1.ExtenderFilterResult{
		Nodes:                      &v1.NodeList{},
		FailedNodes:                extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	if args.Nodes == nil {
		result.Error = "this extender has to be sent nodes"
		return result
	}
	for _, node := range args.Nodes.Items {
		switch has := node.Labels[rack]; {
		case wanted == "" || has == wanted:
			result.Nodes.Items = append(result.Nodes.Items, node)
		case has == "":
			result.FailedAndUnresolvableNodes[node.Name] = "node(s) were in no rack"
		default:
			result.FailedNodes[node.Name] = "node(s) were in another rack"
		}
	}
	return result
}

func (e *extender) prioritize(_ context.Context, args extenderv1.ExtenderArgs) *extenderv1.HostPriorityList {
	result := extenderv1.HostPriorityList{}
	for _, node := range args.Nodes.Items {
		score, _ := strconv.ParseInt(node.Labels[rank], 10, 64)
		result = append(result, extenderv1.HostPriority{Host: node.Name, Score: score})
	}
	return &result
}

func (e *extender) preempt(ctx context.Context, args extenderv1.ExtenderPreemptionArgs) *extenderv1.ExtenderPreemptionResult {
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for name, victims := range args.NodeNameToVictims {
		node, err := e.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || node.Labels[rack] != args.Pod.Annotations[rack] {
			continue
		}
		kept := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			kept.Pods = append(kept.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		result.NodeNameToMetaVictims[name] = kept
	}
	return result
}

func (e *extender) bind(ctx context.Context, args extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult {
	result := &extenderv1.ExtenderBindingResult{}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   args.PodNamespace,
			Name:        args.PodName,
			UID:         types.UID(args.PodUID),
			Annotations: map[string]string{boundBy: "extender"},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: args.Node},
	}
	if err := e.client.CoreV1().Pods(args.PodNamespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		result.Error = err.Error()
	}
	return result
}
