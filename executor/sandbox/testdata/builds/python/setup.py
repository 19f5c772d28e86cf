from setuptools import Extension, setup

setup(ext_modules=[Extension("built.fast", ["fast.c"])])
