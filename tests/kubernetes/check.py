#!/usr/bin/env python3
"""What deploy/kubernetes says, held against the schemas and against what the
documents promise of it.

    tests/kubernetes/check.py [TOOL_SERVER]

Renders the base, and the base with each component (kubectl kustomize), has
kubernetes-validate look at both strictly, looks at who has which volume and what each
container may, lays the tools' volume out as kubelet does and has the server check it.
"""

import base64
import os
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
VERSIONS = ["1.29", "1.33", "1.37"]
failed = []


def expect(holds, what):
    if not holds:
        failed.append(what)


def render(directory):
    words = ["kubectl", "kustomize", str(directory)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return list(yaml.safe_load_all(done.stdout))


def validate(objects, what):
    for version in VERSIONS:
        for one in objects:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                failed.append(f"{what}, {one['kind']} {one['metadata']['name']}, {version}: {error}")


def pod_of(objects):
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def mounts(container):
    return {mount["name"]: mount for mount in container["volumeMounts"]}


def look_at_pod(pod):
    """Who has what: the token and the state are the server's, and nothing is open."""
    (server,) = pod["initContainers"]
    (agent,) = pod["containers"]
    expect(server["restartPolicy"] == "Always", "the server is a sidecar")
    expect(pod["automountServiceAccountToken"] is False, "no token of the cluster's")
    for name in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"]:
        expect(pod.get(name, False) is False, f"{name} is off")
    context = pod["securityContext"]
    expect(context["runAsNonRoot"] is True and context["runAsUser"] > 0, "nobody is root")
    expect(context["seccompProfile"]["type"] == "RuntimeDefault", "a seccomp profile")
    expect(context["fsGroup"] == context["runAsGroup"], "volumes are of the pod's group")
    for container in [server, agent]:
        own, name = container["securityContext"], container["name"]
        expect(own["allowPrivilegeEscalation"] is False, f"{name}: no new privileges")
        expect(own["readOnlyRootFilesystem"] is True, f"{name}: read-only root")
        expect(own["capabilities"] == {"drop": ["ALL"]}, f"{name}: no capability")
        expect("memory" in container["resources"]["limits"], f"{name}: a limit of memory")
        expect({"cpu", "memory"} <= set(container["resources"]["requests"]), f"{name}: requests")
    secret = {volume["name"] for volume in pod["volumes"] if "secret" in volume}
    expect(secret == {"credentials"}, "one secret")
    both = set(mounts(server)) & set(mounts(agent))
    expect(both == {"sockets", "workspace", "scratch"}, f"both have {sorted(both)}")
    expect(mounts(agent)["sockets"].get("readOnly") is True, "the agent cannot make a socket")
    expect(mounts(server)["tools"].get("readOnly") is True, "the server cannot change its tools")
    for one in agent.get("env", []):
        expect("valueFrom" not in one, f"the agent's {one['name']} is no secret")
    expect("envFrom" not in agent and "envFrom" not in server, "no environment of secrets")
    for probe, verb in [("startupProbe", "health"), ("readinessProbe", "health"), ("livenessProbe", "status")]:
        command = server[probe]["exec"]["command"]
        expect(command[:2] == ["tool-server", verb], f"{probe} is {command}")


def lay_out(objects, pod, volume):
    """The tools' volume, as kubelet's writer lays it out; gives what it holds."""
    maps = {one["metadata"]["name"]: one for one in objects if one["kind"] == "ConfigMap"}
    (projected,) = [one["projected"] for one in pod["volumes"] if one["name"] == "tools"]
    data = volume / "..2026_11_22_18_00_00.1"
    data.mkdir(mode=0o755)
    there = set()
    for source in projected["sources"]:
        config = maps[source["configMap"]["name"]]
        binary = {key: base64.b64decode(text) for key, text in config.get("binaryData", {}).items()}
        held = {key: text.encode() for key, text in config.get("data", {}).items()} | binary
        named = {item["key"] for item in source["configMap"]["items"]}
        expect(named == set(held), f"{config['metadata']['name']}: keys {sorted(held)}, mounted {sorted(named)}")
        for item in source["configMap"]["items"]:
            path = data / item["path"]
            path.parent.mkdir(mode=0o755, exist_ok=True)
            path.write_bytes(held[item["key"]])
            path.chmod(item.get("mode", projected["defaultMode"]))
            there.add(item["path"])
    (volume / "..data").symlink_to(data.name)
    volume.chmod(0o777)
    return there


def shipped():
    """What tools.d has, but for what is no tool's."""
    tools = ROOT / "tools.d"
    files = [path for path in tools.rglob("*") if path.is_file() and path.parent != tools]
    return {str(path.relative_to(tools)) for path in files}


def check_tools(server, volume, scratch):
    environment = {
        "PATH": os.environ["PATH"],
        "TOOLS_DIR": str(volume / "..data"),
        "WORKSPACE": str(scratch / "workspace"),
        "STATE_DIR": str(scratch / "state"),
        "TOOL_REQUIRE_RULES": "true",
    }
    done = subprocess.run([server, "check"], env=environment, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"tool-server check: {done.stdout}{done.stderr}")


def look_at_http(objects, base):
    """The door is on loopback, with a token out of a Secret, and nothing leads there."""
    pod, plain = pod_of(objects), yaml.safe_dump(base)
    expect("TOOL_HTTP" not in plain and "3001" not in plain, "it is off in the base")
    server, agent = pod["initContainers"][0], pod["containers"][0]
    said = {one["name"]: one["value"] for one in server["env"]}
    expect(said["TOOL_HTTP_LISTEN"] == "127.0.0.1:3001", "it listens on the pod's loopback")
    place = mounts(server)["http"]
    expect(place["readOnly"] and said["TOOL_HTTP_TOKEN_FILE"].startswith(place["mountPath"]), "the token's file is mounted")
    (volume,) = [one for one in pod["volumes"] if one["name"] == "http"]
    expect(volume["secret"] == {"secretName": "tool-http", "defaultMode": 0o440}, "by a Secret, not open to others")
    expect(not any("ports" in one for one in [server, agent]), "no port is named")
    expect({one["kind"] for one in objects} == {one["kind"] for one in base}, "no Service leads there")
    for name in ["startupProbe", "readinessProbe", "livenessProbe"]:
        expect("exec" in server[name], f"{name} is as it was")


def main():
    os.umask(0o022)
    base = render(DEPLOY / "base")
    validate(base, "base")
    pod = pod_of(base)
    look_at_pod(pod)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        # What a person would write, beside the base. kustomize takes no absolute path.
        overlay = scratch / "overlay"
        overlay.mkdir()
        up = os.path.relpath(DEPLOY.resolve(), overlay.resolve())
        text = {"resources": [f"{up}/base"], "components": [f"{up}/namespaces"]}
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(text))
        with_spaces = render(overlay)
        # Those members are not in the schemas of older versions.
        VERSIONS[:] = [one for one in VERSIONS if one != "1.29"]
        validate(with_spaces, "with namespaces")
        other = pod_of(with_spaces)
        expect(other["hostUsers"] is False, "a user namespace")
        del other["hostUsers"]
        for name in ["procMount", "seccompProfile"]:
            expect(other["initContainers"][0]["securityContext"].pop(name, None), name)
        expect(other == pod, "the component changes nothing else")
        text["components"] = [f"{up}/http"]
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(text))
        by_http = render(overlay)
        validate(by_http, "with HTTP")
        look_at_http(by_http, base)
        volume = scratch / "tools"
        volume.mkdir()
        there = lay_out(base, pod, volume)
        expect(there == shipped(), f"mounted {sorted(there)}, shipped {sorted(shipped())}")
        if len(sys.argv) > 1:
            check_tools(sys.argv[1], volume, scratch)
    for what in failed:
        print(f"not so: {what}", file=sys.stderr)
    if failed:
        sys.exit(1)
    print(f"deploy/kubernetes: {len(base)} objects, strictly valid")


main()
