/** All views: where each is, how it is called, and the key that leads there. */

import type { FunctionComponent } from "preact";

import type { IconName } from "./ui/icon";

export interface View {
  /** The first part of the path; the rest of it belongs to the view. */
  path: string;
  title: string;
  icon: IconName;
  /** Typed after `g`. */
  key: string;
  /** A view is loaded when it is first shown. */
  load: () => Promise<FunctionComponent>;
  /** Left out of the navigation. */
  unlisted?: boolean;
}

export const VIEWS: View[] = [
  {
    path: "overview",
    title: "Overview",
    icon: "overview",
    key: "o",
    load: () => import("./views/overview").then((module) => module.Overview),
  },
  {
    path: "pending",
    title: "Pending pods",
    icon: "pending",
    key: "p",
    load: () => import("./views/pending").then((module) => module.Pending),
  },
  {
    path: "pods",
    title: "Pod",
    icon: "pods",
    key: "",
    load: () => import("./views/pod").then((module) => module.PodView),
    unlisted: true,
  },
  {
    path: "nodes",
    title: "Nodes",
    icon: "nodes",
    key: "n",
    load: () => import("./views/nodes").then((module) => module.Nodes),
  },
  {
    path: "decisions",
    title: "Decisions",
    icon: "decisions",
    key: "d",
    load: () => import("./views/decisions").then((module) => module.Decisions),
  },
  {
    path: "classes",
    title: "Classes",
    icon: "classes",
    key: "c",
    load: () => import("./views/classes").then((module) => module.Classes),
  },
  {
    path: "groups",
    title: "Gangs and batches",
    icon: "groups",
    key: "b",
    load: () => import("./views/groups").then((module) => module.Groups),
  },
  {
    path: "what-if",
    title: "What if",
    icon: "whatif",
    key: "w",
    load: () => import("./views/whatif").then((module) => module.WhatIf),
  },
];
