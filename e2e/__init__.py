"""The program against a real control plane: etcd, kube-apiserver, controllers and kwok nodes."""
