# SPDX-License-Identifier: Apache-2.0
"""Programs of the CUDA runtime interface: on the software GPU's own libcuda, and as programs of a guest."""
import os
import re
import subprocess

import harness
from harness import BUILD, binary, device
from test_remote import Serve, nothing_is_left

VERSIONS = ["9.0", "11.0", "12", "13"]
# Functions of libcudart.so.12 that PyTorch's sources use. The list was not compared with a binary of PyTorch.
TORCH = """__cudaPopCallConfiguration __cudaPushCallConfiguration __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd
__cudaRegisterFunction __cudaRegisterVar __cudaUnregisterFatBinary cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess
cudaDeviceGetAttribute cudaDeviceGetByPCIBusId cudaDeviceGetDefaultMemPool cudaDeviceGetPCIBusId
cudaDeviceGetStreamPriorityRange cudaDeviceReset cudaDeviceSynchronize cudaDriverGetVersion cudaEventCreateWithFlags
cudaEventDestroy cudaEventElapsedTime cudaEventQuery cudaEventRecord cudaEventRecordWithFlags cudaEventSynchronize cudaFree
cudaFreeAsync cudaFreeHost cudaFuncGetAttributes cudaFuncSetAttribute cudaGetDevice cudaGetDeviceCount
cudaGetDeviceProperties_v2 cudaGetDriverEntryPoint cudaGetErrorName cudaGetErrorString cudaGetFuncBySymbol cudaGetLastError
cudaGetSymbolAddress cudaGraphAddEmptyNode cudaGraphDebugDotPrint cudaGraphDestroy cudaGraphExecDestroy cudaGraphGetNodes
cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphNodeGetDependencies cudaHostAlloc
cudaHostGetDevicePointer cudaHostRegister cudaHostUnregister cudaIpcCloseMemHandle cudaIpcGetEventHandle
cudaIpcGetMemHandle cudaIpcOpenEventHandle cudaIpcOpenMemHandle cudaLaunchCooperativeKernel cudaLaunchHostFunc
cudaLaunchKernel cudaLaunchKernelExC cudaMalloc cudaMallocAsync cudaMallocManaged cudaMemGetInfo cudaMemPoolGetAttribute
cudaMemPoolSetAccess cudaMemPoolSetAttribute cudaMemPoolTrimTo cudaMemcpy cudaMemcpy2DAsync cudaMemcpyAsync cudaMemcpyPeerAsync
cudaMemcpyToSymbol cudaMemset cudaMemsetAsync cudaOccupancyMaxActiveBlocksPerMultiprocessor
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaPeekAtLastError cudaPointerGetAttributes cudaProfilerStart
cudaProfilerStop cudaRuntimeGetVersion cudaSetDevice cudaSetDeviceFlags cudaStreamAddCallback cudaStreamBeginCapture
cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamEndCapture
cudaStreamGetCaptureInfo_v2 cudaStreamGetPriority cudaStreamIsCapturing cudaStreamQuery cudaStreamSynchronize
cudaStreamUpdateCaptureDependencies cudaStreamWaitEvent cudaThreadExchangeStreamCaptureMode cudaUserObjectCreate
cudaGraphRetainUserObject""".split()
OLD = ["cudaConfigureCall", "cudaSetupArgument", "cudaLaunch", "cudaThreadSynchronize", "__cudaInitModule"]


def library(version):
    return os.path.join(BUILD, "guest", f"libcudart.so.{version}")


def programs():
    """What each prints at its end; the `<<<>>>` programs are built if clang is there."""
    found = [([binary("cudart_calls"), f"libcudart.so.{v}"], ", 0 failed", v) for v in VERSIONS]
    for name, v in (("cudart_old", "9.0"), ("cudart_new", "11.0")):
        path = os.path.join(BUILD, "tests/cudart", name)
        if os.path.exists(path):
            found.append(([path], ", 0 wrong", v))
        else:
            print(f"{name} was not built: it needs clang, and no sanitizer")
    return found


def test_names_and_versions(s):
    for v in VERSIONS:
        dynamic = subprocess.run(["readelf", "-d", library(v)], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert f"Library soname: [libcudart.so.{v}]" in dynamic and "libcuda.so" not in dynamic, dynamic
        names = subprocess.run(["nm", "-D", "--defined-only", library(v)], stdout=subprocess.PIPE, text=True, check=True).stdout
        functions = dict(re.findall(r" T (\w+)@@(\S+)$", names, re.M))
        assert set(functions.values()) == {f"libcudart.so.{v}"}, functions
        wanted = OLD + ["__cudaGetKernel", "__cudaLaunchKernel"] + (TORCH if v == "12" else ["cudaLaunchKernel", "cudaGetDeviceProperties"])
        assert not set(wanted) - functions.keys(), set(wanted) - functions.keys()


def test_on_the_software_gpu(s):
    for argv, right, v in programs():
        done = subprocess.run(s.inside(argv), env=dict(s.env, LD_PRELOAD=library(v)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
        assert done.returncode == 0 and right in done.stdout, (argv, done.stdout)


@device("--gpus", "2")
def test_in_a_guest(s):
    serve = Serve(s)
    running = [(argv, right, serve.command(*argv)) for argv, right, _ in programs()]
    for argv, right, p in running:
        out, _ = p.communicate(timeout=120)
        assert p.returncode == 0 and right in out, (argv, out)
    nothing_is_left(s)


def test_registration_is_lazy(s):
    """A program that never uses the GPU does not load libcuda.so.1. If nobody serves, calls fail and nothing crashes."""
    path = os.path.join(BUILD, "tests/cudart/cudart_new")
    if not os.path.exists(path):
        print("cudart_new was not built: it needs clang, and no sanitizer")
        return
    environment = dict(s.env, LD_PRELOAD=library("11.0"), LD_LIBRARY_PATH=os.path.join(BUILD, "guest"),
                       RUBATO_REMOTE="/nonexistent")
    done = subprocess.run([path], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 1 and " wrong" in done.stdout, done.stdout[-500:]
    environment = dict(s.env, LD_PRELOAD=library("11.0"), LD_BIND_NOW="1", LD_DEBUG="files")
    done = subprocess.run([path, "idle"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0 and "libcuda.so.1" not in done.stdout, done.stdout[-2000:]


def test_an_rpath_does_not_matter(s):
    """The library that the program names with its RPATH is empty, and is not loaded."""
    folder = os.path.join(s.dir, "rpath")
    os.makedirs(folder)
    decoy = os.path.join(folder, "libcudart.so.12")
    with open(os.path.join(folder, "main.c"), "w") as f:
        f.write("int cudaRuntimeGetVersion(int *v);\nint main(void)\n{\n\tint v = 0;\n\treturn cudaRuntimeGetVersion(&v) || v != 12000;\n}\n")
    with open(os.path.join(folder, "decoy.c"), "w") as f:
        f.write("int cudaRuntimeGetVersion(int *v)\n{\n\treturn 7;\n}\n")
    for argv in (["-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "decoy.c", "-o", decoy],
                 ["main.c", decoy, "-Wl,--disable-new-dtags", "-Wl,-rpath," + folder, "-o", "main"]):
        subprocess.run(["cc", *argv], cwd=folder, check=True)
    serve = Serve(s)
    p = serve.command(os.path.join(folder, "main"))
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 0, out


if __name__ == "__main__":
    harness.main()
