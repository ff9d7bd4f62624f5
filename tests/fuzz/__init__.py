"""The differential fuzzer's parts; tests/fuzz_nets.py is where it begins.

net         a network in the making, and the table of rows that add operators to it
rows_*      the rows: one for each operator that the importer knows
torch_nets  random PyTorch modules, exported
oracle      onnxruntime, and how far from it a result may be
runner      running a network by clcnn under random options, and judging what comes out
shrink      making a finding small
report      findings, each kind once, and the numbers at the end
"""
