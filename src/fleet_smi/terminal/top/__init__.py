"""The live terminal, `fleet-smi top`: feeds → nodes → arrangement → screen as text → Textual."""
