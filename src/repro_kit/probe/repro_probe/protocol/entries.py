"""The ways to compile a model other than `torch.compile`. In recipes and settings their names stand as backends."""

from __future__ import annotations

EXPORT = "export"  # torch.export.export(…, strict=False)
EXPORT_STRICT = "export-strict"  # torch.export.export(…, strict=True): Dynamo traces
EXPORT_DRAFT = "export-draft"  # torch.export.draft_export(…)
EXPORT_DECOMPOSED = "export-decomposed"  # ExportedProgram.run_decompositions()
AOT_INDUCTOR = "aot-inductor"  # torch._inductor.aoti_compile_and_package(…), loaded again
PRECOMPILE = "precompile"  # torch.compiler.precompile.capture(…), loaded again

#: The calls that people write for them.
CALLS = {
    EXPORT: "torch.export.export(…, strict=False)",
    EXPORT_STRICT: "torch.export.export(…, strict=True)",
    EXPORT_DRAFT: "torch.export.draft_export(…)",
    EXPORT_DECOMPOSED: "ExportedProgram.run_decompositions(…)",
    AOT_INDUCTOR: "AOTInductor (torch._inductor.aoti_compile_and_package, aot_compile)",
    PRECOMPILE: "torch.compiler.precompile (capture, load)",
}

#: In the order in which the layer at fault is looked for.
EXPORTS = (EXPORT, EXPORT_STRICT, EXPORT_DRAFT, EXPORT_DECOMPOSED)
PACKAGED = (AOT_INDUCTOR, PRECOMPILE)  # Inductor's code goes into files, and is loaded again
ENTRIES = (*EXPORTS, *PACKAGED)
